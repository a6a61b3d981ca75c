#include "core/storage_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "../base/numbers.hpp"
#include "policy_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

constexpr StorageCost hard_disk{8e-3, 1 / 150e6};

/// Log-normal sizes of the mean and deviation that configs/datasets/imagenet-1k.json gives.
std::vector<IndexRecord> imagenet_like(std::size_t samples) {
  const double variance = std::log1p(0.5 * 0.5);
  const double mu = std::log(113'959.0) - variance / 2;
  std::vector<IndexRecord> records(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    records[i].length = static_cast<std::uint64_t>(std::exp(mu + std::sqrt(variance) * RandomStream(mix(7, i)).normal()));
  }
  return records;
}

Bytes bytes_of(const std::vector<IndexRecord>& records) {
  return std::accumulate(records.begin(), records.end(), Bytes{0}, [](Bytes sum, const IndexRecord& record) { return sum + record.length; });
}

struct Steady {
  double seconds = 0;  ///< of storage, an epoch
  std::uint64_t held = 0;
  Bytes held_bytes = 0;
};

/// The third epoch of MinIO over an emulated disk; its hits are checked to be what is held.
Steady steady_epoch(const std::vector<IndexRecord>& records, const StorageCost& cost, Bytes capacity, float least_priority) {
  PolicyRig cache(CacheKind::minio, capacity, records.size(), least_priority);
  Steady steady;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    steady.seconds = 0;
    std::uint64_t hits = 0;
    for (const std::uint32_t key : epoch_order(epoch + 1, records.size())) {
      const Bytes bytes = records[key].length;
      const bool hit = cache.access(key, bytes, cost.access_priority(bytes)) == CacheDecision::hit;
      if (hit) ++hits;
      if (!hit) steady.seconds += cost.seconds(bytes);
    }
    if (epoch > 0) CHECK(hits == cache.policy->items_held());
  }
  steady.held = cache.policy->items_held();
  steady.held_bytes = cache.policy->bytes_held();
  return steady;
}

double all_seconds(const std::vector<IndexRecord>& records, const StorageCost& cost) {
  double seconds = 0;
  for (const IndexRecord& record : records) seconds += cost.seconds(record.length);
  return seconds;
}

/// What the closed form says, by sorting.
double plain_remaining_share(std::vector<IndexRecord> records, const StorageCost& cost, Bytes capacity) {
  std::ranges::sort(records, {}, &IndexRecord::length);  // the priority falls with the size
  double saved = 0;
  auto left = static_cast<double>(capacity);
  for (const IndexRecord& record : records) {
    const double share = std::min(1.0, left / static_cast<double>(record.length));
    saved += share * cost.seconds(record.length);
    left -= share * static_cast<double>(record.length);
  }
  return 1 - saved / all_seconds(records, cost);
}

}  // namespace

TEST_CASE("cost-aware admission on a hard disk takes the storage seconds of the closed form, fewer than first come, and holds more samples") {
  const std::vector<IndexRecord> records = imagenet_like(20'000);
  const double all = all_seconds(records, hard_disk);
  for (const double share : {0.1, 0.35, 0.65, 0.9}) {
    CAPTURE(share);
    const auto capacity = static_cast<Bytes>(share * static_cast<double>(bytes_of(records)));
    const Steady first = steady_epoch(records, hard_disk, capacity, 0);
    const Steady aware = steady_epoch(records, hard_disk, capacity, admission_threshold(records, hard_disk, capacity));
    const double expected = cost_aware_remaining_share(records, hard_disk, capacity);
    CHECK(std::abs(aware.seconds / all - expected) < 0.001);  // three points are asked for
    CHECK(std::abs(first.seconds / all - (1 - share)) < 0.01);
    CHECK(aware.seconds < first.seconds - 0.05 * all);
    CHECK(static_cast<double>(aware.held) > 1.05 * static_cast<double>(first.held));
    CHECK(aware.held_bytes <= capacity);
    CHECK(aware.held_bytes > capacity - 1'000'000);
  }
}

TEST_CASE("the closed form is one minus the Lorenz curve, as sorting gives it") {
  const std::vector<IndexRecord> records = imagenet_like(3000);
  for (const StorageCost& cost : {hard_disk, StorageCost{1e-4, 1 / 530e6}, StorageCost{8e-3, 0}}) {
    for (const double share : {0.0, 0.01, 0.35, 0.8, 1.0}) {
      const auto capacity = static_cast<Bytes>(share * static_cast<double>(bytes_of(records)));
      CHECK(close_to(cost_aware_remaining_share(records, cost, capacity), plain_remaining_share(records, cost, capacity), 1e-9));
    }
  }
}

TEST_CASE("the threshold is the priority of the first sample that no longer fits, and that sample reaches it") {
  const std::vector<IndexRecord> records = imagenet_like(5000);
  for (const double share : {0.001, 0.35, 0.999}) {
    CAPTURE(share);
    const auto capacity = static_cast<Bytes>(share * static_cast<double>(bytes_of(records)));
    const float threshold = admission_threshold(records, hard_disk, capacity);
    Bytes reaching = 0;
    Bytes above = 0;
    bool some_at = false;
    for (const IndexRecord& record : records) {
      const float priority = hard_disk.access_priority(record.length);
      if (priority >= threshold) reaching += record.length;
      if (priority > threshold) above += record.length;
      some_at = some_at || priority == threshold;
    }
    CHECK(some_at);
    CHECK(above <= capacity);
    CHECK(reaching > capacity);
  }
}

TEST_CASE("samples of one size, or requests that cost nothing, make cost-aware admission first come") {
  const std::vector<IndexRecord> equal(2000, IndexRecord{0, 113'959, 0, 0});
  const std::vector<IndexRecord> mixed = imagenet_like(2000);
  struct Case {
    const std::vector<IndexRecord>& records;
    StorageCost cost;
  };
  for (const auto& [records, cost] : {Case{equal, hard_disk}, Case{mixed, {0, 1 / 530e6}}, Case{mixed, {0, 0}}}) {
    const Bytes capacity = bytes_of(records) * 35 / 100;
    const Steady first = steady_epoch(records, cost, capacity, 0);
    const Steady aware = steady_epoch(records, cost, capacity, admission_threshold(records, cost, capacity));
    CHECK(aware.held == first.held);
    CHECK(aware.held_bytes == first.held_bytes);
    CHECK(aware.seconds == first.seconds);
  }
}

TEST_CASE("everything is admitted when everything fits, nothing is saved where nothing is held") {
  std::vector<IndexRecord> records = imagenet_like(100);
  records.push_back({0, 0, 0, 0});
  CHECK(admission_threshold(records, hard_disk, bytes_of(records)) == 0);
  CHECK(close_to(cost_aware_remaining_share(records, hard_disk, 2 * bytes_of(records)), 8e-3 / all_seconds(records, hard_disk)));
  CHECK(close_to(cost_aware_remaining_share(records, hard_disk, 0), 1));
  CHECK(admission_threshold({}, hard_disk, 0) == 0);
  CHECK(cost_aware_remaining_share({}, hard_disk, 0) == 0);
}

TEST_CASE("a fit gives back the cost that made the points, and no negative part") {
  const auto point = [](const StorageCost& cost, double bytes) {
    return CostPoint{bytes, bytes / (cost.seconds_per_request + cost.seconds_per_byte * bytes)};
  };
  std::vector<CostPoint> points;
  for (const double bytes : {4e3, 16e3, 64e3, 256e3, 1e6, 4e6}) points.push_back(point(hard_disk, bytes));
  const StorageCost fitted = fit_storage_cost(points);
  CHECK(close_to(fitted.seconds_per_request, 8e-3));
  CHECK(close_to(fitted.seconds_per_byte, 1 / 150e6));

  // The same relative error counts the same at either end: 4 MB read 10 % slower is more time than 4 kB takes in all, and must not decide its cost.
  points.clear();
  for (const double bytes : {4e3, 16e3, 64e3, 256e3, 1e6, 4e6}) points.push_back(point({1e-4, 1 / 500e6}, bytes));
  points.back().bytes_per_s /= 1.1;
  const StorageCost noisy = fit_storage_cost(points);
  for (const CostPoint& each : points) {
    CHECK(close_to(noisy.seconds(static_cast<Bytes>(each.request_bytes)), each.request_bytes / each.bytes_per_s, 0.12));
  }

  const std::array one = {CostPoint{128e3, 530e6}};
  CHECK(fit_storage_cost(one).seconds_per_request == 0);
  CHECK(close_to(fit_storage_cost(one).seconds_per_byte, 1 / 530e6));
  const std::array slower_when_larger = {CostPoint{4e3, 500e6}, CostPoint{1e6, 400e6}};
  CHECK(fit_storage_cost(slower_when_larger).seconds_per_request == 0);
  CHECK(fit_storage_cost(slower_when_larger).seconds_per_byte > 1 / 500e6);
  const std::array requests_only = {CostPoint{4e3, 4e6}, CostPoint{8e3, 9e6}};
  CHECK(fit_storage_cost(requests_only).seconds_per_byte == 0);
  CHECK(fit_storage_cost(requests_only).seconds_per_request > 8 / 9e3);
  const std::array useless = {CostPoint{0, 1e6}, CostPoint{1e3, 0}, CostPoint{1e3, std::nan("")}};
  CHECK(fit_storage_cost(useless).seconds(1000) == 0);
}
