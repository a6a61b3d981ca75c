#include "tar_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "file_window.hpp"
#include "tar_header.hpp"
#include "tar_samples.hpp"

namespace dsanalyze {
namespace {

using namespace std::string_view_literals;

/// Of a pax header or a GNU long name; a path is at most 4 KiB, and other records are as long as their writer likes.
constexpr std::uint64_t most_name_bytes = std::uint64_t{1} << 20;
/// Zeros that end an archive: tar fills up its last record (10 KiB, with -b up to any size), and writers reserve room. More of them than this, and
/// than a tenth of the file, may be what a broken copy never wrote.
constexpr std::uint64_t usual_zeros = std::uint64_t{1} << 20;
constexpr std::uint64_t tenth = 10;

std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Goes through a shard from header to header.
class Scan {
 public:
  Scan(const std::filesystem::path& file, const std::string& name, const MemberKeys& keys, BehindEnd behind_end, const std::stop_token& stop)
      : m_window(file), m_name(name), m_behind_end(behind_end), m_stop(stop), m_samples(m_window, m_name, keys, m_shard) {}

  TarShard run() {
    m_shard.bytes = m_window.size();
    m_shard.changed_nanoseconds = m_window.changed_nanoseconds();
    m_shard.inode = m_window.inode();
    refuse_compressed();
    for (std::uint64_t seen = 0; step(); ++seen) {
      if (seen % 1024 == 0 && m_stop.stop_requested()) throw Interrupted();
    }
    if (m_has_no_end && !m_shard.damage) {
      if (const std::string missing = m_samples.missing_of_last(); !missing.empty())
        damaged("tar-torn", fmt::format("ends without an end marker at byte {}: {}, so it may be cut off there", m_window.size(), missing));
    }
    m_samples.finish(m_has_no_end ? FollowedBy::file_end : m_shard.damage ? FollowedBy::damage : FollowedBy::members);
    return std::move(m_shard);
  }

 private:
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
      m_has_no_end = true;
      return damaged("tar-torn", fmt::format("is cut off at byte {}, within the data of {} (at offset {})", m_window.size(), header.name, data));
    }
    m_offset = *tar_next_header(data, bytes);  // the data lie within the file, so this cannot be beyond any
    return true;
  }

  bool end_of_file(std::span<const std::byte> rest) {
    m_has_no_end = true;
    const bool is_padding = std::all_of(rest.begin(), rest.end(), [](std::byte byte) { return byte == std::byte{0}; });
    const bool waits_for_more = m_long_name || m_long_link || m_pax_is_pending;
    if (m_window.size() == 0) return damaged("tar-torn", "is empty (0 bytes)");
    if (m_offset == 0) throw Error(fmt::format("{} is no tar archive: it is shorter than a header", m_name));
    if (is_padding && !waits_for_more) return false;
    return damaged("tar-torn", fmt::format("is cut off at byte {}, within the header at offset {}", m_window.size(), m_offset));
  }

  bool damaged(std::string code, std::string text) {
    m_shard.damage = TarDamage{std::move(code), std::move(text)};
    return false;
  }

  /// Only zeros lie behind the archive's end.
  void judge_zeros() {
    const std::uint64_t zeros = m_window.size() - m_offset;
    if (zeros <= usual_zeros || zeros <= m_window.size() / tenth) return;
    if (!m_has_members) {
      damaged("tar-without-members", fmt::format("has {} bytes and no member: it ends at offset {} with zeros", m_window.size(), m_offset));
    } else {
      damaged("tar-zero-tail", fmt::format("ends at offset {} with zeros, which are {} of its {} bytes: this may be the end of a file that was never "
                                           "written",
                                           m_offset, zeros, m_window.size()));
    }
  }

  /// Readers of tar files stop at a block of zeros. Archives joined with `cat`, and those with a hole of zeros in them, go on behind it.
  void look_behind_end() {
    const auto found = find_nonzero_behind(m_window, m_offset, m_behind_end, m_stop);
    if (!found) return judge_zeros();
    const std::uint64_t block_at = *found - (*found - m_offset) % tar_block_bytes;
    const std::span<const std::byte> block = m_window.at(block_at, tar_block_bytes);
    TarHeader header;
    const bool is_header = block.size() == tar_block_bytes && parse_tar_block(block.first<tar_block_bytes>(), header) == TarBlockKind::header;
    if (is_header) {
      damaged("tar-joined",
              fmt::format("ends at offset {} with zeros, but goes on at offset {} with another header: archives were joined, or zeros have "
                          "overwritten a part of this one. What lies there is not read, as no reader of tar files does unless it ignores zeros",
                          m_offset, block_at));
    } else {
      damaged("tar-damaged",
              fmt::format("ends at offset {} with zeros, but bytes that are none lie behind that, from offset {} on: zeros have overwritten a part "
                          "of it, or something was appended. What lies there is not read",
                          m_offset, *found));
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
    if (bytes.size() < header.size) {
      m_has_no_end = true;
      return damaged("tar-torn", fmt::format("is cut off at byte {}, within the header at offset {}", m_window.size(), m_offset));
    }
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
    m_has_members = true;
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
    m_samples.take({header.name, m_offset, data, bytes});
  }

  FileWindow m_window;
  const std::string& m_name;
  BehindEnd m_behind_end;
  const std::stop_token& m_stop;
  TarShard m_shard;
  std::uint64_t m_offset = 0;
  bool m_has_members = false;
  bool m_has_no_end = false;  ///< the file ends before the archive does
  TarSampleMaker m_samples;
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

TarShard scan_tar_shard(const std::filesystem::path& file, const std::string& name, const MemberKeys& keys, BehindEnd behind_end,
                        const std::stop_token& stop) {
  return Scan(file, name, keys, behind_end, stop).run();
}

TarMemberName split_member_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool is_about_the_shard(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
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

namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t read_in_full = std::uint64_t{1} << 20;
constexpr std::uint64_t probes = 64;
constexpr std::size_t probe_bytes = 4096;

/// The first byte in [begin, end) that is not zero.
std::optional<std::uint64_t> first_nonzero(FileWindow& window, std::uint64_t begin, std::uint64_t end, const std::stop_token& stop) {
  for (std::uint64_t at = window.next_data(begin); at < end; at = window.next_data(at)) {
    if (stop.stop_requested()) throw Interrupted();
    const std::span<const std::byte> piece = window.at(at, static_cast<std::size_t>(std::min(end - at, piece_bytes)));
    const auto found = std::find_if(piece.begin(), piece.end(), [](std::byte byte) { return byte != std::byte{0}; });
    if (found != piece.end()) return at + static_cast<std::uint64_t>(found - piece.begin());
    if (piece.empty()) return std::nullopt;  // the file became shorter
    at += piece.size();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> find_nonzero_behind(FileWindow& window, std::uint64_t end, BehindEnd behind_end, const std::stop_token& stop) {
  const std::uint64_t size = window.size();
  const std::uint64_t begin = std::min(window.next_data(end), size);  // a hole is skipped at no cost, and what is behind it looked at first
  if (behind_end == BehindEnd::all || size - begin <= read_in_full) return first_nonzero(window, begin, size, stop);
  if (const auto found = first_nonzero(window, begin, begin + piece_bytes, stop)) return found;
  const std::uint64_t stride = (size - begin - 2 * piece_bytes) / probes;
  std::uint64_t before = begin + piece_bytes;
  for (std::uint64_t probe = 1; probe <= probes; ++probe) {
    const bool is_last = probe == probes;
    const std::uint64_t place = is_last ? size - piece_bytes : begin + piece_bytes + probe * stride;
    const std::uint64_t place_end = is_last ? size : place + probe_bytes;
    if (first_nonzero(window, place, place_end, stop)) return first_nonzero(window, before, place_end, stop);
    before = place;
  }
  return std::nullopt;
}

}  // namespace dsanalyze
