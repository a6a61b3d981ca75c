#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "models/simulate/epoch_simulator.hpp"

using namespace dsanalyze;

namespace {

const std::vector<IndexRecord> one_record(1);

std::string refusal(const std::function<void(EpochSetup&)>& change) {
  EpochSetup setup;
  setup.samples = 640;
  setup.batch_size = 32;
  setup.storage.fetch_places = 128;
  setup.storage.kind = SimulatedStorage::Kind::measured;
  setup.storage.concurrency = 8;
  change(setup);
  try {
    static_cast<void>(simulate_epochs(setup));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a distribution is linear between its quantiles") {
  const Distribution times({1, 2, 6}, "test");
  CHECK(times.draw(0) == 1);
  CHECK(times.draw(0.25) == doctest::Approx(1.5));
  CHECK(times.draw(0.75) == doctest::Approx(4));
  CHECK(times.draw(std::nextafter(1.0, 0.0)) == doctest::Approx(6));
  CHECK(times.mean() == doctest::Approx(2.75));
  CHECK(Distribution::constant(3, "test").draw(0.5) == 3);
}

TEST_CASE("what cannot be simulated is refused by its field's name") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(Distribution({}, "prep.seconds_per_sample"), "prep.seconds_per_sample: no quantiles, expected at least one value", UsageError);
  CHECK_THROWS_WITH_AS(Distribution({1, nan}, "times"), "times: quantile 1 is nan, expected a number of at least 0", UsageError);
  CHECK_THROWS_WITH_AS(Distribution({-1}, "times"), "times: quantile 0 is -1, expected a number of at least 0", UsageError);
  CHECK_THROWS_WITH_AS(Distribution({2, 1}, "times"), "times: quantile 1 is 1, below the one before it, 2", UsageError);

  using Change = std::function<void(EpochSetup&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"samples", [](EpochSetup& s) { s.samples = 0; }},
      {"batch_size", [](EpochSetup& s) { s.batch_size = 0; }},
      {"epochs", [](EpochSetup& s) { s.epochs = 0; }},
      {"epochs", [](EpochSetup& s) { s.epochs = UINT64_MAX; }},
      {"prefetch_batches", [](EpochSetup& s) { s.prefetch_batches = 0; }},
      {"prep.workers", [](EpochSetup& s) { s.prep.workers = 0; }},
      {"accelerators.count", [](EpochSetup& s) { s.accelerators.count = 0; }},
      {"accelerators.samples_per_s", [](EpochSetup& s) { s.accelerators.samples_per_s = nan; }},
      {"accelerators.samples_per_s", [](EpochSetup& s) { s.accelerators.samples_per_s = -1; }},
      {"accelerators.samples_per_s", [](EpochSetup& s) { s.accelerators.samples_per_s = 1e-9; }},
      {"cache.fraction", [](EpochSetup& s) { s.cache.fraction = 1.5; }},
      {"cache.fraction", [](EpochSetup& s) { s.cache.fraction = nan; }},
      {"cache.copy_bytes_per_s", [](EpochSetup& s) { s.cache.copy_bytes_per_s = -1; }},
      {"cache.least_priority", [](EpochSetup& s) { s.cache.least_priority = -1; }},
      {"cache.storage_cost", [](EpochSetup& s) { s.cache.storage_cost.seconds_per_byte = nan; }},
      {"records", [](EpochSetup& s) { s.records = one_record; }},
      {"cache.kind", [](EpochSetup& s) { s.cache.kind = CacheKind::page; }},
      {"storage.concurrency", [](EpochSetup& s) { s.storage.concurrency = 0; }},
      {"storage.fetch_places", [](EpochSetup& s) { s.storage.fetch_places = 0; }},
      {"storage.device.bytes_per_second", [](EpochSetup& s) { s.storage.kind = SimulatedStorage::Kind::device; }},
      {"storage.fetch_places",
       [](EpochSetup& s) {
         s.order = {OrderKind::sequential, 1000};
       }},
      {"order.node", [](EpochSetup& s) { s.order.node = 1; }},
      {"order.readers", [](EpochSetup& s) { s.order.readers = 0; }},
  };
  for (const auto& each : changes) {
    const std::string& field = each.first;
    const std::string message = refusal(each.second);
    CAPTURE(field);
    CHECK(message.substr(0, message.find(':', 17)) == "epoch simulator: " + field);
  }
}

TEST_CASE("an epoch that is trained before the one before it, on other accelerators, takes no time, never less") {
  EpochSetup setup;
  setup.samples = 1;
  setup.batch_size = 1;
  setup.epochs = 50;
  setup.cache = {CacheKind::minio, 1, SimulatedCache::Start::warm, 0, {}, 0};
  setup.prep.workers = 8;
  setup.prep.seconds_per_sample = {{0.001, 0.002, 0.5}, "test"};
  setup.accelerators = {5, 1000, StepMode::independent};
  double total = 0;
  for (const SimulatedEpoch& epoch : simulate_epochs(setup).epochs) {
    CHECK(epoch.seconds >= 0);
    total += epoch.seconds;
  }
  CHECK(total > 0.5);
}
