#pragma once

#include <span>

#include "base/text/units.hpp"
#include "index.hpp"

namespace dsanalyze {

/// What reading a sample costs storage: seconds of its time, at the concurrency of the run.
struct StorageCost {
  double seconds_per_request = 0;
  double seconds_per_byte = 0;

  [[nodiscard]] double seconds(Bytes bytes) const { return seconds_per_request + seconds_per_byte * static_cast<double>(bytes); }
  /// Storage seconds that a held byte of such a sample saves each epoch; what cost-aware admission ranks samples by.
  /// Falls with the size; the same for all sizes when a request costs nothing.
  [[nodiscard]] double priority(Bytes bytes) const { return bytes > 0 ? seconds_per_request / static_cast<double>(bytes) + seconds_per_byte : 0; }
  /// The same in the type that accesses carry (CacheAccess::priority), in which alone priorities and thresholds are compared.
  [[nodiscard]] float access_priority(Bytes bytes) const { return static_cast<float>(priority(bytes)); }
};

/// One measured point of the S curve at the run's concurrency.
struct CostPoint {
  double request_bytes = 0;
  double bytes_per_s = 0;
};
/// Least squares of seconds a request = a + b x bytes over the points, relative errors weighted alike; a and b are at least 0. One point, or all of
/// one size: a is 0. Points without a positive size and rate are left out; none left: both are 0.
StorageCost fit_storage_cost(std::span<const CostPoint> points);

/// The priority from which on samples are admitted, so that what is admitted fills `capacity`: the greedy (fractional knapsack) threshold, which is
/// the access_priority() of the first sample, from the highest priority down, that no longer fits whole. Samples of exactly this priority may not all
/// fit. 0 when everything fits. O(records), half a megabyte beside them.
float admission_threshold(std::span<const IndexRecord> records, const StorageCost& cost, Bytes capacity);

/// The share of an epoch's storage seconds that remains when a cache of `capacity` bytes holds what cost-aware admission would: one minus the Lorenz
/// curve of storage seconds over bytes, samples in the order of falling priority, the one at the edge by its share. 0 when nothing costs anything.
double cost_aware_remaining_share(std::span<const IndexRecord> records, const StorageCost& cost, Bytes capacity);

}  // namespace dsanalyze
