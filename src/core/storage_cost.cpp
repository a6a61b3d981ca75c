#include "storage_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace dsanalyze {
namespace {

/// Sums of the weighted least squares of y = a + b x, each error taken relative to its y.
struct RelativeSquares {
  double one = 0, x = 0, xx = 0, y = 0, xy = 0;  // each sum over points, divided by y^2

  void add(double at, double value) {
    const double weight = 1 / (value * value);
    one += weight;
    x += weight * at;
    xx += weight * at * at;
    y += weight * value;
    xy += weight * at * value;
  }
  /// Less the sum of squares of y alone, which is the same for every a and b.
  [[nodiscard]] double error(const StorageCost& cost) const {
    const double a = cost.seconds_per_request, b = cost.seconds_per_byte;
    return a * a * one + 2 * a * b * x + b * b * xx - 2 * a * y - 2 * b * xy;
  }
};

/// Positive floats sort as their bits do.
std::uint32_t rank_of(const StorageCost& cost, Bytes bytes) { return std::bit_cast<std::uint32_t>(cost.access_priority(bytes)); }

/// Bytes and storage seconds of samples above a priority, and of those that have exactly it.
struct Held {
  Bytes bytes_above = 0, bytes_at = 0;
  double seconds_above = 0, seconds_at = 0, seconds_all = 0;
};

Held held_from(std::span<const IndexRecord> records, const StorageCost& cost, float threshold) {
  Held held;
  for (const IndexRecord& record : records) {
    const double seconds = cost.seconds(record.length);
    held.seconds_all += seconds;
    if (record.length == 0) continue;
    const float priority = cost.access_priority(record.length);
    if (priority > threshold) {
      held.bytes_above += record.length;
      held.seconds_above += seconds;
    } else if (priority == threshold) {
      held.bytes_at += record.length;
      held.seconds_at += seconds;
    }
  }
  return held;
}

}  // namespace

StorageCost fit_storage_cost(std::span<const CostPoint> points) {
  RelativeSquares sums;
  bool sizes_differ = false;
  double first_size = 0;
  for (const CostPoint& point : points) {
    if (!(point.request_bytes > 0 && std::isfinite(point.request_bytes) && point.bytes_per_s > 0 && std::isfinite(point.bytes_per_s))) continue;
    if (first_size > 0 && point.request_bytes != first_size) sizes_differ = true;
    first_size = point.request_bytes;
    sums.add(point.request_bytes, point.request_bytes / point.bytes_per_s);
  }
  if (first_size == 0) return {};
  const StorageCost bytes_alone{0, sums.xy / sums.xx};
  if (!sizes_differ) return bytes_alone;
  const double determinant = sums.one * sums.xx - sums.x * sums.x;
  const StorageCost both{(sums.y * sums.xx - sums.xy * sums.x) / determinant, (sums.xy * sums.one - sums.y * sums.x) / determinant};
  if (both.seconds_per_request >= 0 && both.seconds_per_byte >= 0) return both;
  const StorageCost requests_alone{sums.y / sums.one, 0};
  return sums.error(requests_alone) < sums.error(bytes_alone) ? requests_alone : bytes_alone;
}

float admission_threshold(std::span<const IndexRecord> records, const StorageCost& cost, Bytes capacity) {
  // Bytes by the upper half of the priority's bits, then, where the capacity ends, by the lower half: exact, without sorting or copying.
  constexpr std::size_t halves = std::size_t{1} << 16;
  std::vector<Bytes> bytes(halves);
  for (const IndexRecord& record : records) bytes[rank_of(cost, record.length) >> 16] += record.length;
  Bytes above = 0;
  const auto crossing = [&]() -> std::size_t {
    for (std::size_t half = halves; half-- > 0;) {
      if (bytes[half] > capacity - above) return half;
      above += bytes[half];
    }
    return halves;
  };
  const std::size_t upper = crossing();
  if (upper == halves) return 0;
  bytes.assign(halves, 0);
  for (const IndexRecord& record : records) {
    const std::uint32_t rank = rank_of(cost, record.length);
    if (rank >> 16 == upper) bytes[rank & 0xffff] += record.length;
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper << 16 | crossing()));
}

double cost_aware_remaining_share(std::span<const IndexRecord> records, const StorageCost& cost, Bytes capacity) {
  const Held held = held_from(records, cost, admission_threshold(records, cost, capacity));
  if (held.seconds_all <= 0) return 0;
  const Bytes left = capacity - std::min(capacity, held.bytes_above);
  const double share_at = held.bytes_at == 0 ? 0 : std::min(1.0, static_cast<double>(left) / static_cast<double>(held.bytes_at));
  return std::max(0.0, 1 - (held.seconds_above + held.seconds_at * share_at) / held.seconds_all);
}

}  // namespace dsanalyze
