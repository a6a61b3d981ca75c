#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// A number of bytes. 1 KiB = 1024 B, 1 kB = 1000 B.
using Bytes = std::uint64_t;

/// The smallest multiple that is not below the value. Requires multiple > 0.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// A size as users write it: so many bytes, or a share of a whole that is known later ("4GiB", "500 MB", "35%").
struct ByteAmount {
  enum class Kind { bytes, fraction };
  Kind kind = Kind::bytes;
  Bytes bytes = 0;      ///< valid when kind is bytes
  double fraction = 0;  ///< valid when kind is fraction; 0.35 for "35%"

  /// The amount in bytes when the whole has `whole` bytes (rounded to the nearest byte).
  [[nodiscard]] Bytes of(Bytes whole) const;
  /// The amount as a share of `whole`; may exceed 1 for an amount larger than the whole. Requires whole > 0.
  [[nodiscard]] double share_of(Bytes whole) const;
};

// Parsers of what users type. All ignore blanks around number and unit, and throw UsageError that names the text and what was expected. Refused are
// negative, infinite and NaN values and, of sizes and shares, a number without a unit other than 0: the error has its readings, none is guessed.

/// "4GiB", "500 MB", "1.5kB", "4096B".
Bytes parse_bytes(std::string_view text);
/// parse_bytes or a percentage of at most 100: "4GiB", "35%".
ByteAmount parse_byte_amount(std::string_view text);
/// "90s", "5min", "250ms", "2h" in seconds; a bare number is seconds. At most 1e9 s.
double parse_seconds(std::string_view text);
/// "2x", "1.5x" or "2"; above zero.
double parse_factor(std::string_view text);
/// "0.1%" as a share, at most 1.
double parse_share(std::string_view text);
/// "530MB/s", "200 MiB/s", "40Gbit/s", "40Gbps" in bytes per second. Units go in any case, but "Mb/s" and "MBps" (bits or bytes?) are refused.
double parse_bytes_per_second(std::string_view text);
/// Plain number with an optional k or M suffix: "9800", "9.8k".
double parse_number(std::string_view text);
/// "0" to "18446744073709551615": all that a seed can be.
std::uint64_t parse_seed(std::string_view text);
/// A whole number in [low, high].
std::int64_t parse_integer(std::string_view text, std::int64_t low, std::int64_t high);
/// "a, b,c" in its trimmed parts; an empty part is an error.
std::vector<std::string> split_list(std::string_view text);

// Formatters for people.

/// "3.1 GiB", "512 B": three significant digits, IEC units.
std::string format_bytes(Bytes bytes);
/// "530 MB/s": decimal units, as disks and networks are sold.
std::string format_bytes_per_second(double bytes_per_second);
/// "1.5 ms", "42 s", "3 min 05 s".
std::string format_seconds(double seconds);
/// "9,800", "12.3": rounded to three or more significant digits, thousands separated.
std::string format_number(double value);
/// "35 %", "0.4 %".
std::string format_share(double share);

}  // namespace dsanalyze
