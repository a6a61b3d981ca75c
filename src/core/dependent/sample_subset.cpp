#include "sample_subset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

[[noreturn]] void refuse_item(std::string_view item, std::string_view why) {
  throw UsageError(fmt::format("subset: found \"{}\", {}; expected sample numbers or ranges such as 7, 0-99 or 25%-75%, with commas between",
                               printable(item), why));
}

std::uint32_t percent_of(std::string_view text, std::string_view item, std::uint32_t samples) {
  try {
    return static_cast<std::uint32_t>(std::llround(parse_share(text) * samples));
  } catch (const UsageError&) {
    refuse_item(item, "which is no percentage from 0 to 100");
  }
}

std::uint32_t number_of(std::string_view text, std::string_view item, std::uint32_t samples) {
  try {
    return static_cast<std::uint32_t>(parse_integer(text, 0, std::int64_t{samples} - 1));
  } catch (const UsageError&) {
    refuse_item(item, fmt::format("which is no sample number below {}", samples));
  }
}

SampleRange range_of(std::string_view item, std::uint32_t samples) {
  const std::size_t dash = item.find('-');
  const std::string_view first = item.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? std::string_view() : item.substr(dash + 1);
  SampleRange range;
  if (first.ends_with('%')) {
    const std::uint32_t one = percent_of(first, item, samples);
    if (dash == std::string_view::npos) return {0, one};
    if (!last.ends_with('%')) refuse_item(item, "which is in percent at one end alone");
    range = {one, percent_of(last, item, samples)};
  } else {
    range.first = number_of(first, item, samples);
    range.end = (dash == std::string_view::npos ? range.first : number_of(last, item, samples)) + 1;
  }
  if (range.end < range.first) refuse_item(item, "whose end comes before its begin");
  return range;
}

/// Ascending, those that touch as one, without empty ones.
std::vector<SampleRange> merged(std::vector<SampleRange> ranges) {
  std::ranges::sort(ranges, {}, &SampleRange::first);
  std::vector<SampleRange> result;
  for (const SampleRange& range : ranges) {
    if (range.size() == 0) continue;
    if (result.empty() || range.first > result.back().end) {
      result.push_back(range);
    } else {
      result.back().end = std::max(result.back().end, range.end);
    }
  }
  return result;
}

}  // namespace

std::vector<SampleRange> parse_subset_ranges(std::string_view text, std::uint32_t samples) {
  std::vector<SampleRange> ranges;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    ranges.push_back(range_of(text.substr(at, end - at), samples));
    at = end + 1;
  }
  ranges = merged(std::move(ranges));
  if (ranges.empty()) throw UsageError(fmt::format("subset: \"{}\" is no sample of the {} that there are", printable(text), samples));
  return ranges;
}

std::vector<SampleId> parse_subset(std::string_view text, std::uint32_t samples) { return samples_of(parse_subset_ranges(text, samples)); }

std::vector<SampleRange> ranges_of(std::span<const SampleId> samples) {
  std::vector<SampleRange> ranges;
  for (const SampleId sample : samples) {
    if (ranges.empty() || ranges.back().end != sample) ranges.push_back({sample, sample});
    ++ranges.back().end;
  }
  return ranges;
}

std::vector<SampleId> samples_of(std::span<const SampleRange> ranges) {
  std::vector<SampleId> samples;
  samples.reserve(count_of(ranges));
  for (const SampleRange& range : ranges)
    for (SampleId sample = range.first; sample < range.end; ++sample) samples.push_back(sample);
  return samples;
}

std::uint64_t count_of(std::span<const SampleRange> ranges) {
  std::uint64_t count = 0;
  for (const SampleRange& range : ranges) count += range.size();
  return count;
}

std::uint64_t count_of_both(std::span<const SampleRange> one, std::span<const SampleRange> other) {
  std::uint64_t count = 0;
  for (std::size_t i = 0, k = 0; i < one.size() && k < other.size();) {
    const SampleId first = std::max(one[i].first, other[k].first);
    const SampleId end = std::min(one[i].end, other[k].end);
    if (first < end) count += end - first;
    one[i].end < other[k].end ? ++i : ++k;
  }
  return count;
}

}  // namespace dsanalyze
