#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>

#include "base/text/units.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "core/order.hpp"
#include "fuzz.hpp"
#include "loaders/dataset/readers/dataset_source.hpp"
#include "loaders/sampler.hpp"

// What users type, and what a saved state says. The first byte chooses the parser.

namespace dsanalyze::fuzz {
namespace {

constexpr std::size_t most_names = 1000;

/// What people read, written back: three significant digits are left, and another parser than ours is not asked for more.
bool is_near(double value, double again) { return std::abs(value - again) <= 0.006 * std::abs(value); }

void check_bytes(std::string_view text) {
  Bytes bytes = 0;
  if (!accepts([&] { bytes = parse_bytes(text); })) return;
  require(bytes <= Bytes{1} << 62, "a size is below 2^62");
  require(parse_bytes(std::to_string(bytes) + "B") == bytes || bytes > (Bytes{1} << 53), "a number of bytes is itself");
  const std::string shown = format_bytes(bytes);
  if (!shown.ends_with("EiB"))
    require(is_near(static_cast<double>(bytes), static_cast<double>(parse_bytes(shown))), "a size that is shown can be typed");
}

void check_amount(std::string_view text) {
  ByteAmount amount;
  if (!accepts([&] { amount = parse_byte_amount(text); })) return;
  if (amount.kind == ByteAmount::Kind::fraction) {
    require(amount.fraction >= 0 && amount.fraction <= 1, "a share is between 0 and 1");
    require(amount.of(1000) <= 1000, "a share of something is not more");
  } else {
    require(amount.bytes == parse_bytes(text), "an amount that is no share is a size");
  }
}

void check_seconds(std::string_view text) {
  double seconds = 0;
  if (!accepts([&] { seconds = parse_seconds(text); })) return;
  require(std::isfinite(seconds) && seconds >= 0 && seconds <= 1e9, "a time is between 0 and 1e9 seconds");
  if (seconds >= 1e-9 && seconds < 59.9) require(is_near(seconds, parse_seconds(format_seconds(seconds))), "a time that is shown can be typed");
}

void check_factor(std::string_view text) {
  double factor = 0;
  if (accepts([&] { factor = parse_factor(text); })) require(std::isfinite(factor) && factor > 0, "a factor is above zero");
}

void check_share(std::string_view text) {
  double share = 0;
  if (!accepts([&] { share = parse_share(text); })) return;
  require(share >= 0 && share <= 1, "a share is between 0 and 1");
  if (share > 1e-9) require(std::abs(share - parse_share(format_share(share))) <= 0.06 * share, "a share that is shown can be typed");
}

void check_rate(std::string_view text) {
  double rate = 0;
  if (!accepts([&] { rate = parse_bytes_per_second(text); })) return;
  require(std::isfinite(rate) && rate >= 0 && rate <= 1e18, "a rate is finite");
  if (rate >= 1 && rate < 1e15) require(is_near(rate, parse_bytes_per_second(format_bytes_per_second(rate))), "a rate that is shown can be typed");
}

void check_number(std::string_view text) {
  double number = 0;
  if (accepts([&] { number = parse_number(text); })) require(std::isfinite(number) && number >= 0 && number <= 1e15, "a number is finite");
}

void check_integer(std::string_view text) {
  std::int64_t integer = 0;
  if (!accepts([&] { integer = parse_integer(text, -1000, 1'000'000); })) return;
  require(integer >= -1000 && integer <= 1'000'000, "a whole number is in its range");
  require(parse_integer(std::to_string(integer), -1000, 1'000'000) == integer, "a whole number is itself");
}

void check_list(std::string_view text) {
  std::vector<std::string> parts;
  if (!accepts([&] { parts = split_list(text); })) return;
  std::string joined;
  for (const std::string& part : parts) {
    require(!part.empty() && part.find(',') == std::string::npos, "a list's items are neither empty nor lists");
    joined += (joined.empty() ? "" : ",") + part;
  }
  require(split_list(joined) == parts, "a list that is joined is itself");
}

void check_braces(std::string_view text) {
  std::vector<std::string> names;
  if (!accepts([&] { names = expand_braces(text, most_names); })) return;
  require(!names.empty() && names.size() <= most_names, "a range stands for something, and for no more than was allowed");
  if (!has_brace_range(text)) require(names.size() == 1 && names[0] == text, "a text without a range stands for itself");
  const std::string_view before = text.substr(0, text.find('{'));
  require(std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(before); }), "what stands before a range stays");
}

void check_sampler_state(std::string_view text) {
  SamplerState state;
  if (!accepts([&] { state = SamplerState::parse(text); })) return;
  require(state.position < state.samples && state.order.node < state.order.nodes && state.order.readers > 0, "a state stands in its epoch");
  require(SamplerState::parse(state.serialise()) == state, "a state that is written is the same when it is read");
}

void check_names(std::string_view text) {
  const std::string name(text);
  OrderKind order{};
  if (accepts([&] { order = parse_order_kind(name); })) require(order_kind_name(order) == name, "an order has one name");
  CacheKind cache{};
  if (accepts([&] { cache = parse_cache_kind(name); })) require(cache_kind_name(cache) == name, "a cache has one name");
}

constexpr std::array checks{check_bytes,  check_amount,  check_seconds, check_factor, check_share,         check_rate,
                            check_number, check_integer, check_list,    check_braces, check_sampler_state, check_names};

}  // namespace
}  // namespace dsanalyze::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dsanalyze::fuzz;
  if (size == 0 || text_of(data, size).find('\0') != std::string_view::npos) return 0;  // no user can type a zero byte
  checks[data[0] % checks.size()](text_of(data + 1, size - 1));
  return 0;
}
