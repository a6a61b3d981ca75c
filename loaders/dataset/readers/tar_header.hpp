#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dsanalyze {

// Parsing of tar archives' headers: functions of bytes, without input or output. ustar, GNU (long names, base-256 numbers), pax and old V7.

constexpr std::size_t tar_block_bytes = 512;
using TarBlock = std::span<const std::byte, tar_block_bytes>;

/// Where the next header is when a member's data begin at `data` and take `bytes`; nothing when that is beyond any file.
std::optional<std::uint64_t> tar_next_header(std::uint64_t data, std::uint64_t bytes);

enum class TarKind {
  file,
  folder,
  hard_link,
  symbolic_link,
  special,     ///< device, pipe
  long_name,   ///< GNU 'L': the data are the next member's name
  long_link,   ///< GNU 'K'
  pax,         ///< 'x': the data are records about the next member
  pax_global,  ///< 'g': records about all members that follow
  sparse,      ///< GNU 'S'
  other,       ///< volume labels and the like; has data, means nothing here
};

/// Whether blocks with data follow a header of this kind (links, folders and devices may carry a size without).
bool tar_kind_has_data(TarKind kind);

struct TarHeader {
  TarKind kind = TarKind::file;
  std::string name;  ///< with the prefix, as it stands
  std::string link;
  std::uint64_t size = 0;
};

enum class TarBlockKind { header, zeros, garbage };

/// Reads one block. `header` is filled in when it is a header: its checksum is right and its size is a number below 2^63.
TarBlockKind parse_tar_block(TarBlock block, TarHeader& header);

/// What pax records say about a member, as far as it matters here.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<std::uint64_t> size;
  bool sparse = false;

  /// What stands in `later` wins.
  void update(const PaxRecords& later);
  void apply_to(TarHeader& header) const;
};

/// Reads "LENGTH KEY=VALUE\n" records; false when a length lies or a size is no number. `records` are then half filled and not to be used.
bool parse_pax_records(std::span<const std::byte> bytes, PaxRecords& records);

}  // namespace dsanalyze
