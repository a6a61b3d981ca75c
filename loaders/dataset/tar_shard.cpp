#include "tar_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "dsanalyze/base/error.hpp"
#include "file_window.hpp"
#include "format_names.hpp"
#include "npy_header.hpp"
#include "tar_header.hpp"

namespace dsanalyze {
namespace {

using namespace std::string_view_literals;

/// Of a pax header or a GNU long name; a path is at most 4 KiB, and other records are as long as their writer likes.
constexpr std::uint64_t most_name_bytes = std::uint64_t{1} << 20;
constexpr std::size_t most_label_bytes = 64;
constexpr std::size_t looked_at_behind_end = std::size_t{64} << 10;

std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::optional<std::int64_t> parse_label(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\0'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  std::int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return label;
}

/// Goes through a shard from header to header.
class Scan {
 public:
  Scan(const std::filesystem::path& file, const std::string& name, const std::stop_token& stop) : m_window(file), m_name(name), m_stop(stop) {}

  TarShard run() {
    m_shard.bytes = m_window.size();
    m_shard.modified_nanoseconds = m_window.modified_nanoseconds();
    refuse_compressed();
    for (std::uint64_t seen = 0; step(); ++seen) {
      if (seen % 1024 == 0 && m_stop.stop_requested()) throw Interrupted();
    }
    finish_sample();
    return std::move(m_shard);
  }

 private:
  struct Group {
    std::string key;
    std::uint64_t begin = 0;
    std::optional<TarSample> data;
    std::optional<std::int64_t> label;
    bool label_is_torn = false;
    bool has_several_data = false;
  };

  void refuse_compressed() {
    const Compression compression = compression_of_bytes(text_of(m_window.at(0, tar_block_bytes)));
    if (compression.name.empty()) return;
    throw Error(fmt::format("the shard {} is compressed with {}: samples are read at random, which needs a plain tar; decompress it with: {}", m_name,
                            compression.name, fmt::format(fmt::runtime(compression.command), m_name)));
  }

  /// Handles one header and what belongs to it. False at the archive's end.
  bool step() {
    const std::span<const std::byte> block = m_window.at(m_offset, tar_block_bytes);
    if (block.size() < tar_block_bytes) return end_of_file(block);
    TarHeader header;
    switch (parse_tar_block(block.first<tar_block_bytes>(), header)) {
      case TarBlockKind::zeros:
        look_behind_end();
        return false;
      case TarBlockKind::garbage:
        if (m_offset == 0) throw Error(fmt::format("{} is no tar archive: it does not begin with a header", m_name));
        return damaged("tar-damaged", fmt::format("has no valid header at offset {}", m_offset));
      case TarBlockKind::header:
        break;
    }
    const std::uint64_t data = m_offset + tar_block_bytes;
    if (is_about_the_next(header.kind)) return note_about_the_next(header, data);
    apply_notes(header);
    const std::uint64_t bytes = tar_kind_has_data(header.kind) ? header.size : 0;
    take_member(header, data, bytes);
    if (bytes > m_window.size() - std::min(data, m_window.size())) {
      return damaged("tar-torn", fmt::format("ends within the data of {} (at offset {})", header.name, data));
    }
    m_offset = *tar_next_header(data, bytes);  // the data lie within the file, so this cannot be beyond any
    return true;
  }

  bool end_of_file(std::span<const std::byte> rest) {
    const bool is_padding = std::all_of(rest.begin(), rest.end(), [](std::byte byte) { return byte == std::byte{0}; });
    const bool waits_for_more = m_long_name || m_long_link || m_pax_is_pending;
    if (m_window.size() == 0) return damaged("tar-torn", "is empty (0 bytes)");
    if (m_offset == 0) throw Error(fmt::format("{} is no tar archive: it is shorter than a header", m_name));
    if (is_padding && !waits_for_more) return false;
    return damaged("tar-torn", fmt::format("ends within a header (at offset {})", m_offset));
  }

  bool damaged(std::string code, std::string text) {
    m_shard.damage = TarDamage{std::move(code), std::move(text)};
    return false;
  }

  /// Archives joined with `cat` go on behind the first one's end, where no reader of tar files looks unless told to.
  void look_behind_end() {
    const std::span<const std::byte> rest = m_window.at(m_offset, looked_at_behind_end);
    for (std::size_t place = 0; place + tar_block_bytes <= rest.size(); place += tar_block_bytes) {
      TarHeader header;
      const TarBlockKind kind = parse_tar_block(rest.subspan(place).first<tar_block_bytes>(), header);
      if (kind == TarBlockKind::zeros) continue;
      if (kind == TarBlockKind::header)
        damaged("tar-joined", fmt::format("goes on behind its end, at offset {}, with another archive, which is left out", m_offset + place));
      return;
    }
  }

  static bool is_about_the_next(TarKind kind) {
    return kind == TarKind::long_name || kind == TarKind::long_link || kind == TarKind::pax || kind == TarKind::pax_global;
  }

  bool note_about_the_next(const TarHeader& header, std::uint64_t data) {
    if (header.size > most_name_bytes) {
      return damaged("tar-damaged", fmt::format("has a header at offset {} that claims {} bytes for a name", m_offset, header.size));
    }
    const std::span<const std::byte> bytes = m_window.at(data, static_cast<std::size_t>(header.size));
    if (bytes.size() < header.size) return damaged("tar-torn", fmt::format("ends within a header (at offset {})", m_offset));
    const std::string_view text = text_of(bytes);
    if (header.kind == TarKind::long_name) {
      m_long_name = std::string(text.substr(0, text.find('\0')));
    } else if (header.kind == TarKind::long_link) {
      m_long_link = std::string(text.substr(0, text.find('\0')));
    } else {
      PaxRecords records;
      if (!parse_pax_records(bytes, records)) {
        return damaged("tar-damaged", fmt::format("has a pax header at offset {} whose records are broken", m_offset));
      }
      const bool is_global = header.kind == TarKind::pax_global;
      (is_global ? m_global : m_pax).update(records);
      m_pax_is_pending |= !is_global;
    }
    m_offset = *tar_next_header(data, header.size);
    return true;
  }

  void apply_notes(TarHeader& header) {
    if (m_long_name) header.name = std::move(*m_long_name);
    if (m_long_link) header.link = std::move(*m_long_link);
    m_global.apply_to(header);
    m_pax.apply_to(header);
    m_long_name.reset();
    m_long_link.reset();
    m_pax = {};
    m_pax_is_pending = false;
  }

  void take_member(const TarHeader& header, std::uint64_t data, std::uint64_t bytes) {
    switch (header.kind) {
      case TarKind::folder:
        return;
      case TarKind::hard_link:
      case TarKind::symbolic_link:
        m_shard.links.add(fmt::format("{}: {} -> {}", m_name, header.name, header.link));
        return;
      case TarKind::sparse:
        throw Error(
            fmt::format("the shard {} holds the sparse member {} (at offset {}), whose bytes do not lie as they are; write the shard "
                        "anew without --sparse",
                        m_name, header.name, m_offset));
      case TarKind::file:
        break;
      default:
        m_shard.other_members.add(fmt::format("{}: {}", m_name, header.name));
        return;
    }
    const TarMemberName name = split_member_name(header.name);
    if (name.key.empty()) {
      m_shard.other_members.add(fmt::format("{}: {}", m_name, header.name));
      return;
    }
    if (name.key != m_group.key) begin_sample(name.key);
    const std::string extension = extension_of(header.name);
    if (extension == ".cls") {
      take_label(data, bytes, header.name);
    } else if (is_image_name(header.name) || is_npy_name(header.name)) {
      take_data(data, bytes, is_image_name(header.name) ? TarSampleKind::image : TarSampleKind::array, header.name);
    }
  }

  void begin_sample(std::string_view key) {
    finish_sample();
    m_group.key = key;
    m_group.begin = m_offset;
    const auto [place, is_new] = m_seen.try_emplace(m_group.key, m_offset);
    if (is_new) return;
    throw Error(
        fmt::format("the shard {} has members of the key '{}' at offset {} and again at offset {}, with members of other keys between them; those of "
                    "one key must lie side by side: write the shard anew in sorted order (tar --sort=name)",
                    m_name, key, place->second, m_offset));
  }

  void finish_sample() {
    if (m_group.key.empty()) return;
    const std::string name = fmt::format("{}: {}", m_name, m_group.key);
    if (m_group.has_several_data) m_shard.keys_with_several_data.add(name);
    if (!m_group.data) {
      m_shard.keys_without_data.add(name);
    } else {
      m_group.data->label = m_group.label;
      if (m_group.label_is_torn) tear(*m_group.data);
      m_shard.samples.push_back(*m_group.data);
    }
    m_group = {};
  }

  /// Lets the sample end a byte behind the file. Arrays keep their size, which all of a dataset have, and begin there.
  void tear(TarSample& sample) const {
    if (sample.kind == TarSampleKind::array) {
      sample.offset = m_window.size();
    } else {
      sample.length = m_window.size() + 1 - std::min(sample.offset, m_window.size());
    }
  }

  void take_label(std::uint64_t data, std::uint64_t bytes, const std::string& name) {
    const std::span<const std::byte> text = m_window.at(data, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, most_label_bytes)));
    m_group.label_is_torn = bytes > m_window.size() - std::min(data, m_window.size());
    m_group.label = bytes <= most_label_bytes ? parse_label(text_of(text)) : std::nullopt;
    if (!m_group.label && !m_group.label_is_torn) m_shard.labels_unreadable.add(fmt::format("{}: {}", m_name, name));
  }

  void take_data(std::uint64_t data, std::uint64_t bytes, TarSampleKind kind, const std::string& name) {
    if (m_group.data) {
      m_group.has_several_data = true;
      return;
    }
    TarSample sample{data, bytes, std::nullopt, kind};
    const bool is_torn = bytes > m_window.size() - std::min(data, m_window.size());
    if (kind == TarSampleKind::array) {
      take_array(sample, is_torn, name);
    } else if (is_torn) {
      tear(sample);
    }
    m_group.data = sample;
  }

  void take_array(TarSample& sample, bool is_torn, const std::string& name) {
    const std::uint64_t member_bytes = sample.length;
    try {
      std::span<const std::byte> head =
          m_window.at(sample.offset, static_cast<std::size_t>(std::min<std::uint64_t>(member_bytes, npy_preamble_bytes)));
      if (is_torn && head.size() < npy_preamble_bytes) return tear_array(sample);
      const std::size_t head_bytes = npy_header_bytes(head);
      head = m_window.at(sample.offset, static_cast<std::size_t>(std::min<std::uint64_t>(member_bytes, head_bytes)));
      if (is_torn && head.size() < head_bytes) return tear_array(sample);
      const NpyHeader header = parse_npy_header(head);
      if (header.fortran_order && header.shape.size() > 1) throw Error("it is stored in Fortran order (columns first), which samples may not be");
      if (header.data_bytes > member_bytes - header.header_bytes)
        throw Error(fmt::format("it has {} bytes where its shape needs {}", member_bytes - header.header_bytes, header.data_bytes));
      const ArrayDescription array{header.dtype, header.shape, header.data_bytes};
      if (!m_shard.array) m_shard.array = array;
      if (*m_shard.array != array) throw Error("its shape or type is not that of the arrays before it");
      sample.offset += header.header_bytes;
      sample.length = header.data_bytes;
    } catch (const Error& error) {
      throw Error(fmt::format("cannot use the array {} of the shard {} (at offset {}): {}", name, m_name, sample.offset, error.what()));
    }
  }

  /// An array whose own header is cut off: one of the others' size that begins where the file ends.
  void tear_array(TarSample& sample) const {
    sample.length = m_shard.array ? m_shard.array->sample_bytes : 0;
    tear(sample);
  }

  FileWindow m_window;
  const std::string& m_name;
  const std::stop_token& m_stop;
  TarShard m_shard;
  std::uint64_t m_offset = 0;
  Group m_group;
  std::unordered_map<std::string, std::uint64_t> m_seen;
  std::optional<std::string> m_long_name;
  std::optional<std::string> m_long_link;
  PaxRecords m_pax;
  PaxRecords m_global;
  bool m_pax_is_pending = false;
};

constexpr std::size_t most_blocks_back = 136;  // an .npy header of 64 KiB and a pax header of 4 KiB fit between a member's header and its array

/// The longer name that stands in a pax or GNU header right before the header at `at`; "" when there is none.
std::string long_name_before(FileWindow& window, std::uint64_t at) {
  for (std::uint64_t blocks = 1; blocks <= 16 && (blocks + 1) * tar_block_bytes <= at; ++blocks) {
    const std::uint64_t place = at - (blocks + 1) * tar_block_bytes;
    const std::span<const std::byte> block = window.at(place, tar_block_bytes);
    TarHeader header;
    if (block.size() < tar_block_bytes || parse_tar_block(block.first<tar_block_bytes>(), header) != TarBlockKind::header) continue;
    if (tar_next_header(place + tar_block_bytes, header.size) != at || header.size > most_name_bytes) continue;
    const std::span<const std::byte> bytes = window.at(place + tar_block_bytes, static_cast<std::size_t>(header.size));
    if (header.kind == TarKind::long_name) return std::string(text_of(bytes).substr(0, text_of(bytes).find('\0')));
    PaxRecords records;
    if (header.kind == TarKind::pax && parse_pax_records(bytes, records) && records.path) return *records.path;
  }
  return {};
}

}  // namespace

TarShard scan_tar_shard(const std::filesystem::path& file, const std::string& name, const std::stop_token& stop) {
  return Scan(file, name, stop).run();
}

TarMemberName split_member_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string tar_member_at(const std::filesystem::path& file, std::uint64_t offset, std::uint64_t length) {
  FileWindow window(file);
  const std::uint64_t last = offset / tar_block_bytes;
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(last, most_blocks_back); ++back) {
    const std::uint64_t at = (last - back) * tar_block_bytes;
    const std::span<const std::byte> block = window.at(at, tar_block_bytes);
    TarHeader header;
    if (block.size() < tar_block_bytes || parse_tar_block(block.first<tar_block_bytes>(), header) != TarBlockKind::header) continue;
    if (header.kind != TarKind::file) continue;
    const std::string longer = long_name_before(window, at);
    const std::uint64_t data = at + tar_block_bytes;
    const bool holds = header.size >= offset - data && header.size - (offset - data) >= length;
    if (back == 1 || holds) return longer.empty() ? header.name : longer;
  }
  return {};
}

Compression compression_of_bytes(std::string_view first_bytes) {
  struct Magic {
    std::string_view bytes;
    Compression compression;
  };
  static constexpr std::array magics{
      Magic{"\x1f\x8b"sv, {"gzip", "gunzip -k '{}'"}},     Magic{"\x28\xb5\x2f\xfd"sv, {"zstd", "zstd -d '{}'"}},
      Magic{"BZh"sv, {"bzip2", "bunzip2 -k '{}'"}},        Magic{"\xfd\x37zXZ\0"sv, {"xz", "unxz -k '{}'"}},
      Magic{"\x04\x22\x4d\x18"sv, {"lz4", "lz4 -d '{}'"}},
  };
  const auto* found = std::find_if(magics.begin(), magics.end(), [&](const Magic& magic) { return first_bytes.starts_with(magic.bytes); });
  return found == magics.end() ? Compression{} : found->compression;
}

}  // namespace dsanalyze
