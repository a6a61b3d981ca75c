#include "units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

struct Quantity {
  double value;
  std::string_view number;
  std::string_view unit;
};

/// What a parser accepts, for its errors: "a size", "4GiB, 500 MB or 4096B".
struct Kind {
  std::string_view what;
  std::string_view examples;
  std::span<const Unit> units;
  double most;
  std::string (*readings)(const Quantity& bare) = nullptr;  ///< what a number without a unit may mean, where none but 0 is taken
};

constexpr std::array byte_units = {
    Unit{"", 1},     Unit{"B", 1},        Unit{"kB", 1e3},  Unit{"KiB", 0x1p10}, Unit{"MB", 1e6},  Unit{"MiB", 0x1p20},
    Unit{"GB", 1e9}, Unit{"GiB", 0x1p30}, Unit{"TB", 1e12}, Unit{"TiB", 0x1p40}, Unit{"PB", 1e15}, Unit{"PiB", 0x1p50},
};
constexpr std::array byte_rate_units = {
    Unit{"B/s", 1},          Unit{"kB/s", 1e3},       Unit{"KiB/s", 0x1p10},   Unit{"MB/s", 1e6},        Unit{"MiB/s", 0x1p20},
    Unit{"GB/s", 1e9},       Unit{"GiB/s", 0x1p30},   Unit{"TB/s", 1e12},      Unit{"TiB/s", 0x1p40},    Unit{"bit/s", 1.0 / 8},
    Unit{"kbit/s", 1e3 / 8}, Unit{"Mbit/s", 1e6 / 8}, Unit{"Gbit/s", 1e9 / 8}, Unit{"Tbit/s", 1e12 / 8}, Unit{"kbps", 1e3 / 8},
    Unit{"Mbps", 1e6 / 8},   Unit{"Gbps", 1e9 / 8},   Unit{"Tbps", 1e12 / 8},
};
constexpr std::array time_units = {
    Unit{"", 1}, Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}, Unit{"m", 60}, Unit{"min", 60}, Unit{"h", 3600},
};
constexpr std::array factor_units = {Unit{"", 1}, Unit{"x", 1}};
constexpr std::array share_units = {Unit{"", 1}, Unit{"%", 0.01}};
constexpr std::array number_units = {Unit{"", 1}, Unit{"k", 1e3}, Unit{"M", 1e6}};

std::string size_readings(const Quantity& bare) { return fmt::format("{0}B or {0}MB", bare.number); }
std::string share_readings(const Quantity& bare) {
  if (bare.value > 1) return bare.value > 100 ? "a share of at most 100%" : fmt::format("{}%", bare.number);
  return fmt::format("{}% or {:g}%", bare.number, bare.value * 100);
}
std::string amount_readings(const Quantity& bare) {
  if (bare.value > 100) return size_readings(bare);
  return bare.value < 1 ? share_readings(bare) + " (of the dataset)" : fmt::format("{0}% (of the dataset) or {0}B", bare.number);
}

constexpr Kind size_kind{"a size", "4GiB, 500 MB or 4096B", byte_units, 0x1p62, size_readings};
constexpr Kind amount_kind{"a size or a share", "4GiB, 500 MB or 35%", byte_units, 0x1p62, amount_readings};
constexpr Kind byte_rate_kind{"a rate in bytes or bits per second", "530MB/s, 200 MiB/s or 40Gbit/s", byte_rate_units, 1e18};
constexpr Kind time_kind{"a time", "90s, 5min or 250ms", time_units, 1e9};
constexpr Kind factor_kind{"a factor", "2x or 1.5", factor_units, 1e9};
constexpr Kind share_kind{"a share", "0.1% or 35%", share_units, 1, share_readings};
constexpr Kind number_kind{"a number", "9800, 9.8k or 1.2M", number_units, 1e15};

bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
char to_lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool same_letters(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, to_lower, to_lower); }

[[noreturn]] void refuse(std::string_view text, const Kind& kind, std::string_view reason) {
  throw UsageError(fmt::format("\"{}\" is not {}: {}; write for example {}", text, kind.what, reason, kind.examples));
}

Quantity read_quantity(std::string_view text, const Kind& kind) {
  const std::string_view body = trim(text);
  if (body.empty()) refuse(text, kind, "it is empty");
  if (body.front() == '-') refuse(text, kind, "it must not be negative");
  // Also keeps out what from_chars takes for numbers: "inf" and "nan".
  if (!is_digit(body.front()) && body.front() != '.') refuse(text, kind, "it does not begin with a number");
  Quantity quantity{};
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), quantity.value, std::chars_format::fixed);
  if (error == std::errc::result_out_of_range) refuse(text, kind, "its number cannot be represented");
  if (error != std::errc{}) refuse(text, kind, "it does not begin with a number");
  quantity.number = body.substr(0, static_cast<std::size_t>(end - body.data()));
  quantity.unit = trim(body.substr(quantity.number.size()));
  if (kind.readings != nullptr && quantity.unit.empty() && quantity.value != 0)
    throw UsageError(fmt::format("\"{}\" has no unit; write {}", text, kind.readings(quantity)));
  return quantity;
}

double in_range(double value, std::string_view text, const Kind& kind) {
  if (!(value <= kind.most)) refuse(text, kind, "it is absurdly large");
  return value;
}

double apply_unit(const Quantity& quantity, std::string_view text, const Kind& kind) {
  std::string known;
  for (const Unit& unit : kind.units) {
    if (same_letters(unit.name, quantity.unit)) return in_range(quantity.value * unit.factor, text, kind);
    if (!unit.name.empty()) known += fmt::format("{}{}", known.empty() ? "" : ", ", unit.name);
  }
  const std::string problem = quantity.unit.empty() ? "its unit is missing" : fmt::format("unknown unit \"{}\"", quantity.unit);
  refuse(text, kind, fmt::format("{} (known: {})", problem, known));
}

double parse_quantity(std::string_view text, const Kind& kind) { return apply_unit(read_quantity(text, kind), text, kind); }

Bytes to_bytes(double value) { return static_cast<Bytes>(std::llround(value)); }

std::string without_trailing_zeros(std::string digits) {
  if (digits.find('.') == std::string::npos) return digits;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

// Three significant digits of a number below 10,000, none lost before the point.
std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude == 0) return "0";
  const int whole_digits = magnitude < 1 ? 0 : static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  if (whole_digits == 0) return without_trailing_zeros(fmt::format("{:.{}f}", value, 2 - static_cast<int>(std::floor(std::log10(magnitude)))));
  return without_trailing_zeros(fmt::format("{:.{}f}", value, std::max(3 - whole_digits, 0)));
}

// The number with the first unit in which it is shown below `step`; the last unit takes whatever is left.
std::string with_scaled_unit(double value, double step, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && std::round(value) >= step) {
    value /= step;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

}  // namespace

Bytes ByteAmount::of(Bytes whole) const {
  if (kind == Kind::bytes) return bytes;
  return static_cast<Bytes>(std::llround(static_cast<long double>(fraction) * static_cast<long double>(whole)));
}

double ByteAmount::share_of(Bytes whole) const {
  if (whole == 0) throw std::domain_error("a share of zero bytes is not defined");
  return kind == Kind::fraction ? fraction : static_cast<double>(bytes) / static_cast<double>(whole);
}

Bytes parse_bytes(std::string_view text) { return to_bytes(parse_quantity(text, size_kind)); }

ByteAmount parse_byte_amount(std::string_view text) {
  const Quantity quantity = read_quantity(text, amount_kind);
  if (quantity.unit != "%") return {ByteAmount::Kind::bytes, to_bytes(apply_unit(quantity, text, amount_kind)), 0};
  if (quantity.value > 100) refuse(text, amount_kind, "a share is at most 100%");
  return {ByteAmount::Kind::fraction, 0, quantity.value / 100};
}

double parse_seconds(std::string_view text) { return parse_quantity(text, time_kind); }

double parse_factor(std::string_view text) {
  const double factor = parse_quantity(text, factor_kind);
  if (factor == 0) refuse(text, factor_kind, "it must be above zero");
  return factor;
}

double parse_share(std::string_view text) {
  const Quantity quantity = read_quantity(text, share_kind);
  if (quantity.value > 100) refuse(text, share_kind, "a share is at most 100%");
  return quantity.unit == "%" ? quantity.value / 100 : apply_unit(quantity, text, share_kind);
}

double parse_bytes_per_second(std::string_view text) {
  const std::string_view unit = read_quantity(text, byte_rate_kind).unit;
  // Case separates bits from bytes where only the letter b tells them, and people are careless with it: a factor of eight is not guessed.
  const std::string_view ending = unit.size() < 3 ? unit : unit.substr(unit.size() - 3);
  const bool careless = ending.starts_with('b') ? same_letters(ending, "b/s") : ending.starts_with('B') && same_letters(ending, "bps");
  if (careless) refuse(text, byte_rate_kind, fmt::format("\"{}\" may mean bits or bytes: write MB/s for bytes, Mbit/s for bits", unit));
  return parse_quantity(text, byte_rate_kind);
}

double parse_number(std::string_view text) {
  if (trim(text).ends_with('m')) refuse(text, number_kind, "\"m\" may mean a thousandth or a million: write M for a million");
  return parse_quantity(text, number_kind);
}

std::int64_t parse_integer(std::string_view text, std::int64_t low, std::int64_t high) {
  const std::string_view body = trim(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc{} && end == body.data() + body.size() && value >= low && value <= high) return value;
  const std::string range =
      high == std::numeric_limits<std::int64_t>::max() ? fmt::format("of at least {}", low) : fmt::format("in [{}, {}]", low, high);
  throw UsageError(fmt::format("found \"{}\", expected a whole number {}, for example {}", text, range,
                               std::max<std::int64_t>(low, std::min<std::int64_t>(high, 8))));
}

std::uint64_t parse_seed(std::string_view text) {
  const std::string_view body = trim(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc{} && end == body.data() + body.size()) return value;
  throw UsageError(fmt::format("found \"{}\", expected a whole number in [0, {}], for example 8", text, std::numeric_limits<std::uint64_t>::max()));
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = trim(text.substr(begin, end - begin));
    if (part.empty())
      throw UsageError(fmt::format("\"{}\" has an empty item; write a list with commas between its items, for example 25%,35%,50%", text));
    parts.emplace_back(part);
    begin = end + 1;
  }
  return parts;
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 7> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return with_scaled_unit(static_cast<double>(bytes), 1024, units);
}

std::string format_bytes_per_second(double bytes_per_second) {
  constexpr std::array<std::string_view, 6> units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
  return with_scaled_unit(bytes_per_second, 1000, units);
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return fmt::format("-{}", format_seconds(-seconds));
  if (seconds < 59.95) {
    constexpr std::array<std::string_view, 4> units = {"ns", "us", "ms", "s"};
    return seconds == 0 ? "0 s" : with_scaled_unit(seconds * 1e9, 1000, units);
  }
  const auto whole = static_cast<std::int64_t>(std::round(std::min(seconds, 1e15)));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const std::int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string format_number(double value) {
  const double magnitude = std::abs(value);
  if (!std::isfinite(value) || magnitude >= 1e15 || (magnitude > 0 && magnitude < 1e-4)) return fmt::format("{:.3g}", value);
  if (magnitude < 999.5) return three_digits(value);
  const std::string digits = fmt::format("{:.0f}", magnitude);
  std::string grouped = value < 0 ? "-" : "";
  for (std::size_t at = 0; at < digits.size(); ++at) {
    if (at > 0 && (digits.size() - at) % 3 == 0) grouped += ',';
    grouped += digits[at];
  }
  return grouped;
}

std::string format_share(double share) {
  const double percent = share * 100;
  if (!std::isfinite(percent)) return fmt::format("{} %", percent);
  if (std::abs(percent) >= 0.995 || percent == 0) return without_trailing_zeros(fmt::format("{:.1f}", percent)) + " %";
  const int decimals = std::min(1 - static_cast<int>(std::floor(std::log10(std::abs(percent)))), 12);
  return without_trailing_zeros(fmt::format("{:.{}f}", percent, decimals)) + " %";
}

}  // namespace dsanalyze
