#include "tar_header.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t most_bytes = std::numeric_limits<std::int64_t>::max();

struct Field {
  std::size_t offset;
  std::size_t length;
};
constexpr Field name_field{0, 100};
constexpr Field size_field{124, 12};
constexpr Field checksum_field{148, 8};
constexpr Field kind_field{156, 1};
constexpr Field link_field{157, 100};
constexpr Field magic_field{257, 6};
constexpr Field prefix_field{345, 155};
constexpr Field star_prefix_field{345, 131};  // Schilling's star keeps times behind a shorter prefix
constexpr Field star_magic_field{508, 4};

std::string_view bytes_of(TarBlock block, Field field) { return {reinterpret_cast<const char*>(block.data()) + field.offset, field.length}; }

std::string_view text_of(TarBlock block, Field field) {
  const std::string_view bytes = bytes_of(block, field);
  return bytes.substr(0, bytes.find('\0'));
}

std::optional<std::uint64_t> parse_base256(std::string_view field) {
  std::uint64_t value = static_cast<unsigned char>(field.front()) & 0x7f;
  for (const char byte : field.substr(1)) {
    if (value > (most_bytes >> 8)) return std::nullopt;
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

/// Octal digits between spaces, up to a zero byte or the field's end; an empty field is 0. GNU's base 256 when the first bit is set.
std::optional<std::uint64_t> parse_field(std::string_view field) {
  if ((static_cast<unsigned char>(field.front()) & 0x80) != 0) return parse_base256(field);
  field = field.substr(0, field.find('\0'));
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  field = field.substr(0, field.find(' '));
  std::uint64_t value = 0;
  for (const char digit : field) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');  // 12 digits are 36 bits
  }
  return value;
}

/// The sum of a header's bytes with its own checksum taken as spaces; old programs added them as signed numbers.
bool checksum_is_right(TarBlock block) {
  const std::optional<std::uint64_t> stated = parse_field(bytes_of(block, checksum_field));
  if (!stated) return false;
  std::int64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t place = 0; place < block.size(); ++place) {
    const bool is_own = place >= checksum_field.offset && place < checksum_field.offset + checksum_field.length;
    const auto byte = is_own ? static_cast<unsigned char>(' ') : static_cast<unsigned char>(block[place]);
    sum += byte;
    signed_sum += static_cast<signed char>(byte);
  }
  return static_cast<std::int64_t>(*stated) == sum || static_cast<std::int64_t>(*stated) == signed_sum;
}

TarKind kind_of(char letter, std::string_view name) {
  switch (letter) {
    case '\0':
      return name.ends_with('/') ? TarKind::folder : TarKind::file;  // V7 has no letter for folders
    case '0':
    case '7':
      return TarKind::file;  // whatever the name ends with: a longer one may follow that is cut here
    case '1':
      return TarKind::hard_link;
    case '2':
      return TarKind::symbolic_link;
    case '3':
    case '4':
    case '6':
      return TarKind::special;
    case '5':
      return TarKind::folder;
    case 'L':
      return TarKind::long_name;
    case 'K':
      return TarKind::long_link;
    case 'x':
    case 'X':
      return TarKind::pax;
    case 'g':
      return TarKind::pax_global;
    case 'S':
      return TarKind::sparse;
    default:
      return TarKind::other;
  }
}

std::string name_of(TarBlock block) {
  using namespace std::string_view_literals;
  const std::string_view name = text_of(block, name_field);
  if (bytes_of(block, magic_field) != "ustar\0"sv) return std::string(name);  // GNU keeps other things where the prefix would be
  const bool is_star = bytes_of(block, star_magic_field) == "tar\0"sv;
  const std::string_view prefix = text_of(block, is_star ? star_prefix_field : prefix_field);
  if (prefix.empty()) return std::string(name);
  std::string whole(prefix);
  whole.push_back('/');
  return whole.append(name);
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most_bytes) return std::nullopt;
  return value;
}

bool take_record(std::string_view key, std::string_view value, PaxRecords& records) {
  if (key == "path") {
    records.path = value;
  } else if (key == "linkpath") {
    records.link = value;
  } else if (key == "size") {
    records.size = parse_decimal(value);
    return records.size.has_value();
  } else if (key.starts_with("GNU.sparse.") || key == "SCHILY.realsize") {
    records.sparse = true;
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> tar_next_header(std::uint64_t data, std::uint64_t bytes) {
  if (bytes > most_bytes - tar_block_bytes || data > most_bytes - tar_block_bytes - bytes) return std::nullopt;
  return data + round_up(bytes, tar_block_bytes);
}

bool tar_kind_has_data(TarKind kind) {
  return kind != TarKind::folder && kind != TarKind::hard_link && kind != TarKind::symbolic_link && kind != TarKind::special;
}

TarBlockKind parse_tar_block(TarBlock block, TarHeader& header) {
  if (std::all_of(block.begin(), block.end(), [](std::byte byte) { return byte == std::byte{0}; })) return TarBlockKind::zeros;
  if (!checksum_is_right(block)) return TarBlockKind::garbage;
  const std::optional<std::uint64_t> size = parse_field(bytes_of(block, size_field));
  if (!size) return TarBlockKind::garbage;
  header.name = name_of(block);
  header.link = text_of(block, link_field);
  header.size = *size;
  header.kind = kind_of(bytes_of(block, kind_field).front(), header.name);
  return TarBlockKind::header;
}

void PaxRecords::update(const PaxRecords& later) {
  if (later.path) path = later.path;
  if (later.link) link = later.link;
  if (later.size) size = later.size;
  sparse |= later.sparse;
}

void PaxRecords::apply_to(TarHeader& header) const {
  if (path) header.name = *path;
  if (link) header.link = *link;
  if (size) header.size = *size;
  if (sparse && header.kind == TarKind::file) header.kind = TarKind::sparse;
}

bool parse_pax_records(std::span<const std::byte> bytes, PaxRecords& records) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!rest.empty() && rest.front() != '\0') {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return false;
    const std::optional<std::uint64_t> length = parse_decimal(rest.substr(0, space));
    if (!length || *length > rest.size() || *length < space + 3) return false;  // at least " =\n" behind the digits
    const std::string_view record = rest.substr(space + 1, *length - space - 1);
    const std::size_t equals = record.find('=');
    if (record.back() != '\n' || equals == std::string_view::npos) return false;
    if (!take_record(record.substr(0, equals), record.substr(equals + 1, record.size() - equals - 2), records)) return false;
    rest.remove_prefix(*length);
  }
  return true;
}

}  // namespace dsanalyze
