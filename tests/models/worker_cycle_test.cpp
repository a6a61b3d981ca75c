#include "models/simulate/worker_cycle.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace dsanalyze;

namespace {

/// Storage that gives all readers together so much.
std::vector<SupplyPoint> throttled(double samples_per_s) { return {{1, samples_per_s}, {64, samples_per_s}}; }

}  // namespace

TEST_CASE("a worker alone takes the sum of its times") {
  CHECK(cycle_rate({1, 4, 0.002, 0.003, 0, {}}) == doctest::Approx(200).epsilon(0.01));
  CHECK(cycle_rate({1, 4, 0.002, 0.003, 0.5, throttled(100)}) == doctest::Approx(100).epsilon(0.02));
  CHECK(cycle_rate({1, 4, 0, 0.004, 0, {}}) == doctest::Approx(250));
  CHECK(cycle_rate({1, 4, 0, 0, 1, throttled(70)}) == doctest::Approx(70).epsilon(0.02));
}

TEST_CASE("workers that nothing holds up are as fast as one, times their number; cores and storage bound them") {
  CHECK(cycle_rate({6, 64, 0.002, 0.008, 0, {}}) == doctest::Approx(600).epsilon(0.01));
  CHECK(cycle_rate({32, 2, 0.002, 0.002, 0, {}}) == doctest::Approx(1000).epsilon(0.01));
  CHECK(cycle_rate({64, 64, 0.002, 0.002, 0.25, throttled(50)}) == doctest::Approx(200).epsilon(0.02));
  CHECK(std::isinf(cycle_rate({2, 2, 0, 0, 0, {}})));
}

TEST_CASE("between the bounds, workers wait for one another at storage") {
  // Two workers, each 10 ms at storage that serves one at a time, and 10 ms elsewhere: 1 / 10 ms if they never met there, 2 / 30 ms if each always
  // found the other.
  const double rate = cycle_rate({2, 8, 0, 0.01, 1, throttled(100)});
  CHECK(rate > 80);
  CHECK(rate < 100);
  // Storage with room for both does not hold them up.
  CHECK(cycle_rate({2, 8, 0, 0.01, 1, {{1, 100}, {2, 200}}}) == doctest::Approx(100).epsilon(0.01));
}

TEST_CASE("a limited storage admits what its limit gives in a slice at once, and what is not read by the end of the next one is lost") {
  // Two workers on one core, which gives 133 samples/s; every second one comes from storage that is as fast as memory, limited to 67 a second.
  WorkerCycle cycle{2, 1, 0.0075, 0, 0.5, throttled(2000)};
  CHECK(cycle_rate(cycle) == doctest::Approx(133).epsilon(0.02));
  cycle.admitted = 67;
  const double rate = cycle_rate(cycle);
  CHECK(rate > 120);  // above what one gets whose every read takes 1 / 67 s
  CHECK(rate < 131);  // below the 133 of both bounds
  cycle.admitted = 20;
  CHECK(cycle_rate(cycle) == doctest::Approx(40).epsilon(0.03));
  cycle.admitted = 3;  // Less than one in each slice.
  CHECK(cycle_rate(cycle) == doctest::Approx(6).epsilon(0.05));
  cycle.admitted = 1000;
  CHECK(cycle_rate(cycle) == doctest::Approx(133).epsilon(0.02));
}

TEST_CASE("readers of a cgroup that Linux limits are as fast as measured") {
  // Processes that read 120 KiB of a fast disk for a part of their samples, and wait for the rest of each sample; measured over 12 s each
  // (Linux 6.18).
  struct Measured {
    int workers;
    double other_seconds, misses, limit_mb_per_s, samples_per_s;
  };
  for (const Measured& each :
       {Measured{1, 0.002, 0.6, 32, 434.4}, {4, 0.008, 0.55, 32, 472.9}, {2, 0.004, 0.5, 28, 458.3}, {6, 0.012, 0.4, 24, 484.2}}) {
    CAPTURE(each.workers);
    const std::vector<SupplyPoint> fast{{1, 2'500}, {64, 20'000}};
    WorkerCycle cycle{each.workers, 64, 0, each.other_seconds, each.misses, fast};
    cycle.admitted = each.limit_mb_per_s * 1e6 / (120 * 1024);
    CHECK(cycle_rate(cycle) == doctest::Approx(each.samples_per_s).epsilon(0.025));
  }
}

TEST_CASE("samples that take several slices of such a limit are as slow as measured") {
  // One process, and three, which read samples in requests of 120 KiB; over 20 s each (Linux 6.18).
  struct Measured {
    int workers;
    double kib, limit_mb_per_s, other_seconds, samples_per_s;
  };
  for (const Measured& each : {Measured{1, 24'000, 100, 0.25, 2.20}, {1, 1'440, 10, 0.1, 6.65}, {3, 1'440, 10, 0.3, 6.55}}) {
    CAPTURE(each.kib);
    CAPTURE(each.workers);
    const double bytes = each.kib * 1024;
    WorkerCycle cycle{each.workers, 64, 0, each.other_seconds, 1, {{1, 400e6 / bytes}, {64, 1000e6 / bytes}}};
    cycle.admitted = each.limit_mb_per_s * 1e6 / bytes;
    CHECK(cycle_rate(cycle) == doctest::Approx(each.samples_per_s).epsilon(0.09));
  }
}

TEST_CASE("a storage that admits nothing gives nothing") {
  WorkerCycle cycle{2, 1, 0.0075, 0, 0.5, {{1, 2000}}};
  cycle.admitted = 0;
  CHECK(cycle_rate(cycle) == 0);
}

TEST_CASE("more misses, and slower storage, are never faster") {
  double last = 1e9;
  for (const double misses : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    const double rate = cycle_rate({4, 2, 0.003, 0.001, misses, {{1, 200}, {4, 500}}});
    CHECK(rate < last * 1.005);
    last = rate;
  }
  CHECK(cycle_rate({4, 2, 0.003, 0.001, 0.5, throttled(80)}) < cycle_rate({4, 2, 0.003, 0.001, 0.5, throttled(300)}));
}

TEST_CASE("supply is read off its curve, over the logarithm of readers, and goes on as at its ends") {
  const std::vector<SupplyPoint> curve{{2, 100}, {8, 300}};
  CHECK(supply(curve, 4) == doctest::Approx(200));
  CHECK(supply(curve, 2) == doctest::Approx(100));
  CHECK(supply(curve, 100) == doctest::Approx(300));
  CHECK(supply(curve, 1) == doctest::Approx(50));
  CHECK(std::isinf(supply({}, 3)));
}
