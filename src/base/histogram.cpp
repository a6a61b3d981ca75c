#include "histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dsanalyze {

std::uint32_t DurationCounts::bucket_of(Nanoseconds duration) {
  // A power of two and its five leading bits: linear steps within a doubling.
  const auto value = static_cast<std::uint64_t>(std::max<Nanoseconds>(duration, 1));
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(value)) - 1;
  if (exponent >= doublings) return bucket_count - 1;
  const std::uint64_t within = ((value - (std::uint64_t{1} << exponent)) * buckets_per_doubling) >> exponent;
  return exponent * buckets_per_doubling + static_cast<std::uint32_t>(within);
}

double DurationCounts::bucket_begin(std::uint32_t bucket) {
  const double within = static_cast<double>(bucket % buckets_per_doubling) / buckets_per_doubling;
  return std::ldexp(1 + within, static_cast<int>(bucket / buckets_per_doubling)) * 1e-9;
}

void DurationCounts::add(std::uint32_t bucket, std::uint64_t count, Nanoseconds sum) {
  if (count > 0) {
    m_buckets.resize(bucket_count);
    m_buckets[bucket] += count;
  }
  m_count += count;
  m_sum += sum;
}

DurationCounts& DurationCounts::operator+=(const DurationCounts& other) {
  for (std::uint32_t i = 0; i < other.m_buckets.size(); ++i) add(i, other.m_buckets[i], 0);
  m_sum += other.m_sum;
  return *this;
}

double DurationCounts::mean_seconds() const { return m_count > 0 ? to_seconds(m_sum) / static_cast<double>(m_count) : 0; }

std::vector<double> DurationCounts::quantiles(std::size_t points) const {
  std::vector<double> result;
  if (m_count == 0 || points < 2) return result;
  std::uint32_t bucket = 0;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < points; ++i) {
    const double rank = static_cast<double>(i) / static_cast<double>(points - 1) * static_cast<double>(m_count);
    while (bucket + 1 < bucket_count && (m_buckets[bucket] == 0 || static_cast<double>(below + m_buckets[bucket]) < rank))
      below += m_buckets[bucket++];
    const double within =
        std::clamp((rank - static_cast<double>(below)) / static_cast<double>(std::max<std::uint64_t>(m_buckets[bucket], 1)), 0.0, 1.0);
    const double value = std::lerp(bucket_begin(bucket), bucket_begin(bucket + 1), within);
    result.push_back(result.empty() ? value : std::max(value, result.back()));
  }
  return result;
}

DurationCounts DurationHistogram::counts() const {
  DurationCounts counts;
  for (std::uint32_t i = 0; i < DurationCounts::bucket_count; ++i) counts.add(i, (*m_buckets)[i].load(std::memory_order_relaxed), 0);
  counts.add(0, 0, static_cast<Nanoseconds>(m_sum.load(std::memory_order_relaxed)));
  return counts;
}

}  // namespace dsanalyze
