#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/batch.hpp"

namespace dsanalyze {

/// Samples from `first` up to, but not including, `end`.
struct SampleRange {
  SampleId first = 0;
  SampleId end = 0;

  [[nodiscard]] std::uint32_t size() const { return end - first; }
  bool operator==(const SampleRange&) const = default;
};

/// Samples of a dataset of so many, as ascending ranges that do not touch, from a list of numbers ("7"), ranges of numbers ("0-99", both included)
/// and ranges of the index in percent ("25%-75%"; "10%" is its first tenth), with commas between. Throws UsageError that names what it found, also
/// when it is nothing.
std::vector<SampleRange> parse_subset_ranges(std::string_view text, std::uint32_t samples);
/// The same, sample by sample.
std::vector<SampleId> parse_subset(std::string_view text, std::uint32_t samples);

/// Ascending ranges that do not touch, of samples in ascending order, each once.
std::vector<SampleRange> ranges_of(std::span<const SampleId> samples);
std::vector<SampleId> samples_of(std::span<const SampleRange> ranges);
std::uint64_t count_of(std::span<const SampleRange> ranges);
/// How many samples lie in both. Each has ascending ranges that do not overlap.
std::uint64_t count_of_both(std::span<const SampleRange> one, std::span<const SampleRange> other);

}  // namespace dsanalyze
