#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

GateOptions by_calibration() {
  GateOptions options;
  options.normalize = Normalize::by_calibration;
  return options;
}

/// Runs of a machine with a CPU of that speed, where prep is the bottleneck.
std::vector<GateRun> runs_at(SimulatedMachine& machine, double speed, const Speeds& speeds = {}) {
  Speeds faster = speeds;
  for (double* rate : {&faster.prep, &faster.cached, &faster.full}) *rate *= speed;
  std::vector<GateRun> runs = machine.runs(faster, 10);
  for (GateRun& run : runs) {
    run.profile.host.cpu_model = speed == 1 ? "a CPU" : "a faster CPU";
    run.profile.host.kernel = speed == 1 ? "6.1.0" : "6.12.1";
    run.profile.host.calibration_passes_per_s = 4000 * speed;
    run.profile.bottleneck = BottleneckRecord{"cpu", "prep", true, "", "io"};
  }
  return runs;
}

bool has(const GateResult& result, const std::string& metric) {
  return std::ranges::any_of(result.metrics, [&](const GateMetric& each) { return each.name == metric; });
}

}  // namespace

TEST_CASE("a CPU that is twice as fast is no change when rates are normalized, and one that hides a slow-down does not") {
  SimulatedMachine machine(1, {.each = 0.005});
  const auto before = runs_at(machine, 1);
  const GateResult same = compare_results(before, runs_at(machine, 2), by_calibration());
  CHECK(same.verdict == GateVerdict::no_change);
  CHECK(same.normalized);
  CHECK(same.baseline.calibration == doctest::Approx(4000));
  CHECK(same.current.calibration == doctest::Approx(8000));
  CHECK(compare_results(before, runs_at(machine, 2, Speeds{}.slower(0.1)), by_calibration()).verdict == GateVerdict::regression);
}

TEST_CASE("what normalising does not cover is refused or left out") {
  SimulatedMachine machine(2, {.each = 0.005});
  const auto before = runs_at(machine, 1);
  auto after = runs_at(machine, 2);
  CHECK_THROWS_WITH_AS(compare_results(before, after, {}), doctest::Contains("host.cpu_model"), UsageError);
  const GateResult result = compare_results(before, after, by_calibration());
  for (const char* metric : {"P", "S", "cached", "full"}) CHECK(has(result, metric));
  CHECK_FALSE(has(result, "prep-stall"));
  after.back().profile.bottleneck->detail = "storage";
  after.front().profile.ingestion = after.front().profile.prep;
  const GateResult bound = compare_results(before, after, by_calibration());
  CHECK_FALSE(has(bound, "full"));
  CHECK_FALSE(has(bound, "cached"));
  after.back().profile.host.cores = 64;
  CHECK_THROWS_WITH_AS(compare_results(before, after, by_calibration()), doctest::Contains("host.cores"), UsageError);
}

TEST_CASE("a result without a calibration is refused with the reason") {
  SimulatedMachine machine(3, {});
  const auto before = runs_at(machine, 1);
  auto after = runs_at(machine, 1);
  after[2].profile.host.calibration_passes_per_s.reset();
  CHECK_THROWS_WITH_AS(compare_results(before, after, by_calibration()), doctest::Contains("has no calibration"), UsageError);
  auto emulated_before = machine.runs({}, 2);
  auto emulated_after = machine.runs({}, 2);
  for (auto* runs : {&emulated_before, &emulated_after})
    for (GateRun& run : *runs) run.profile.settings.prep = Seam::emulated;
  CHECK_THROWS_WITH_AS(compare_results(emulated_before, emulated_after, by_calibration()), doctest::Contains("prep is not real"), UsageError);
}
