#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "clock.hpp"

namespace dsanalyze {

/// How often durations of each size were seen. A plain copy; those of several threads add up.
class DurationCounts {
 public:
  /// Equal steps within each doubling, so that a duration is known to 3 %.
  static constexpr std::uint32_t buckets_per_doubling = 32;
  static constexpr std::uint32_t doublings = 40;  ///< 1 ns to 18 minutes
  static constexpr std::uint32_t bucket_count = buckets_per_doubling * doublings;

  [[nodiscard]] static std::uint32_t bucket_of(Nanoseconds duration);
  /// Where the bucket begins, in seconds; `bucket` may be bucket_count.
  [[nodiscard]] static double bucket_begin(std::uint32_t bucket);

  void add(std::uint32_t bucket, std::uint64_t count, Nanoseconds sum);
  DurationCounts& operator+=(const DurationCounts& other);

  [[nodiscard]] std::uint64_t count() const { return m_count; }
  [[nodiscard]] double mean_seconds() const;  ///< exact, not of the buckets; 0 when nothing was seen
  /// `points` >= 2 equally spaced quantiles in seconds, ascending, the smallest and the largest included, interpolated within buckets. Empty when
  /// nothing was seen.
  [[nodiscard]] std::vector<double> quantiles(std::size_t points) const;

 private:
  std::vector<std::uint64_t> m_buckets;  ///< empty until something is added
  std::uint64_t m_count = 0;
  Nanoseconds m_sum = 0;
};

/// One thread's record of durations: written by its thread alone, read by anyone without stopping it.
class DurationHistogram {
 public:
  DurationHistogram() : m_buckets(std::make_unique<Buckets>()) {}
  void add(Nanoseconds duration) { add_mean(duration, 1); }
  /// `count` durations that took `total` together: each is counted at their mean. Requires count > 0.
  void add_mean(Nanoseconds total, std::uint64_t count) {
    bump((*m_buckets)[DurationCounts::bucket_of(total / static_cast<Nanoseconds>(count))], count);
    bump(m_sum, total > 0 ? static_cast<std::uint64_t>(total) : 0);
  }
  [[nodiscard]] DurationCounts counts() const;

 private:
  using Word = std::atomic<std::uint64_t>;
  using Buckets = std::array<Word, DurationCounts::bucket_count>;
  static void bump(Word& word, std::uint64_t by) { word.store(word.load(std::memory_order_relaxed) + by, std::memory_order_relaxed); }
  std::unique_ptr<Buckets> m_buckets;
  Word m_sum{0};
};

}  // namespace dsanalyze
