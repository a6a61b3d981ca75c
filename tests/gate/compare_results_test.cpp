#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.hpp"
#include "gate/statistics.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

const GateMetric& metric(const GateResult& result, const std::string& name) {
  const auto found = std::ranges::find(result.metrics, name, &GateMetric::name);
  REQUIRE(found != result.metrics.end());
  return *found;
}

bool has_finding(const GateResult& result, const std::string& code) {
  return std::ranges::find(result.findings, code, &Finding::code) != result.findings.end();
}

}  // namespace

TEST_CASE("a loader that is a fifth slower is a regression of what it slows, and of nothing else") {
  SimulatedMachine machine(1, {.each = 0.01});
  const auto baseline = machine.runs({}, 8);
  const auto current = machine.runs(Speeds{}.slower(0.2), 8);
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.verdict == GateVerdict::regression);
  CHECK(gate_exit_code(result.verdict) == 3);
  CHECK(metric(result, "P").verdict == GateVerdict::regression);
  CHECK(metric(result, "P").effect == doctest::Approx(-0.2).epsilon(0.1));
  CHECK(metric(result, "S").verdict != GateVerdict::regression);
  CHECK(result.unit == GateUnit::run);
  CHECK(has_finding(result, "one-after-the-other"));
}

TEST_CASE("equal runs that scatter little are no change, and that is shown") {
  SimulatedMachine machine(2, {.each = 0.005});
  const auto baseline = machine.runs({}, 8);
  const auto current = machine.runs({}, 8);
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.verdict == GateVerdict::no_change);
  CHECK(gate_exit_code(result.verdict) == 0);
}

TEST_CASE("two runs a side give no verdict, however alike they are, and three that are just alike an interval of some width") {
  SimulatedMachine machine(31, {.each = 0});
  const auto baseline = machine.runs({}, 3);
  const auto current = machine.runs(Speeds{}.slower(0.04), 3);
  GateOptions only_prep;
  only_prep.metrics = {"P"};
  const GateResult two = compare_results(std::span(baseline).first(2), std::span(current).first(2), only_prep);
  CHECK(two.verdict == GateVerdict::cannot_tell);
  CHECK(metric(two, "P").interval.has_value());
  CHECK(metric(two, "P").more == 1);
  CHECK(metric(two, "P").reason.find("three runs a side") != std::string::npos);
  const GateResult three = compare_results(baseline, current, only_prep);
  CHECK(three.verdict == GateVerdict::regression);
  CHECK(metric(three, "P").interval->high - metric(three, "P").interval->low > 0.001);
}

TEST_CASE("a conclusion says of its verdict what lay far off, and that one side ran first") {
  SimulatedMachine machine(32, {.each = 0.002});
  std::vector<GateRun> baseline, current;
  for (int i = 0; i < 20; ++i) {
    baseline.push_back(machine.run({}));
    current.push_back(machine.run(i % 7 == 3 ? Speeds{}.slower(0.5) : Speeds{}));
  }
  GateOptions only_prep;
  only_prep.metrics = {"P"};
  const GateResult result = compare_results(baseline, current, only_prep);
  CHECK(result.verdict == GateVerdict::no_change);
  CHECK(result.reason == "every metric stayed within ± 3 %, but 3 of 40 runs (P) lay far off the others and hardly counted");
  const GateResult plain = compare_results(baseline, std::vector<GateRun>(current.begin(), current.begin() + 3), only_prep);
  CHECK(plain.reason.find("far off") == std::string::npos);

  SimulatedMachine other(33, {.each = 0.002});
  const auto before = other.runs({}, 8);
  const GateResult sequence = compare_results(before, other.runs({}, 8), only_prep);
  CHECK(sequence.verdict == GateVerdict::no_change);
  CHECK(
      sequence.reason.ends_with("; all runs of one side came first, so a drift of the machine looks like a change or hides one, and the stated "
                                "error rates do not hold"));
}

TEST_CASE("one run a side cannot tell, and says how many would") {
  SimulatedMachine machine(3, {});
  const auto baseline = machine.runs({}, 1);
  const auto current = machine.runs(Speeds{}.slower(0.3), 1);
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(gate_exit_code(result.verdict) == 4);
  for (const GateMetric& each : result.metrics) {
    CHECK_FALSE(each.interval.has_value());
    CHECK(each.more.value_or(0) > 0);
    CHECK(each.reason.find("too few runs") != std::string::npos);
  }
}

TEST_CASE("a baseline of one day cannot judge another day, however many runs it has") {
  SimulatedMachine machine(4, {.each = 0.003, .session = 0.05});
  const auto baseline = machine.runs({}, 20);
  machine.next_session();
  const auto current = machine.runs({}, 20);
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.unit == GateUnit::session);
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(metric(result, "P").reason.find("one session") != std::string::npos);
  CHECK(has_finding(result, "other-session"));
}

TEST_CASE("baselines of several days know how far days lie apart") {
  const auto verdict_at = [](double slower) {
    SimulatedMachine machine(5, {.each = 0.005, .session = 0.02});
    std::vector<GateRun> baseline;
    for (int day = 0; day < 12; ++day) {
      machine.next_session();
      for (GateRun& run : machine.runs({}, 3)) baseline.push_back(std::move(run));
    }
    machine.next_session();
    const auto current = machine.runs(Speeds{}.slower(slower), 3);
    return compare_results(baseline, current, {});
  };
  const GateResult slow = verdict_at(0.3);
  CHECK(slow.verdict == GateVerdict::regression);
  CHECK(metric(slow, "P").observations_baseline == 12);
  CHECK(metric(slow, "P").observations_current == 1);
  CHECK(verdict_at(0).verdict == GateVerdict::cannot_tell);
}

TEST_CASE("what ran in the same sessions is compared within them, whatever the sessions did") {
  SimulatedMachine machine(6, {.each = 0.005, .session = 0.2});
  std::vector<GateRun> baseline, current;
  for (int day = 0; day < 3; ++day) {
    machine.next_session();
    for (int i = 0; i < 4; ++i) {
      baseline.push_back(machine.run({}));
      current.push_back(machine.run(Speeds{}.slower(0.05)));
    }
  }
  machine.next_session();
  baseline.push_back(machine.run({}));
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.unit == GateUnit::run);
  CHECK(metric(result, "P").verdict == GateVerdict::regression);
  CHECK(metric(result, "P").effect == doctest::Approx(-0.05).epsilon(0.2));
  CHECK(metric(result, "P").observations_baseline == 12);
  CHECK(has_finding(result, "runs-left-out"));
}

TEST_CASE("one run a side in each of several sessions has the interval of paired differences") {
  SimulatedMachine machine(14, {.each = 0.01, .session = 0.2});
  std::vector<GateRun> baseline, current;
  std::vector<double> differences;
  for (int day = 0; day < 6; ++day) {
    machine.next_session();
    baseline.push_back(machine.run({}));
    current.push_back(machine.run({}));
    differences.push_back(std::log(current.back().profile.prep->samples_per_s / baseline.back().profile.prep->samples_per_s));
  }
  GateOptions options;
  options.metrics = {"P"};
  const GateResult result = compare_results(baseline, current, options);
  CHECK(result.unit == GateUnit::run);
  const gate::Contrast expected = gate::paired(differences);
  const double half = gate::margin(expected, gate::family_alpha);
  REQUIRE(metric(result, "P").interval.has_value());
  CHECK(metric(result, "P").interval->low == doctest::Approx(std::expm1(expected.estimate - half)).epsilon(1e-6));
  CHECK(metric(result, "P").interval->high == doctest::Approx(std::expm1(expected.estimate + half)).epsilon(1e-6));
}

TEST_CASE("a session that both sides share does not throw away a baseline of many days") {
  SimulatedMachine machine(15, {.each = 0.005, .session = 0.02});
  std::vector<GateRun> baseline;
  for (int day = 0; day < 12; ++day) {
    machine.next_session();
    baseline.push_back(machine.run({}));
  }
  const std::vector<GateRun> current = machine.runs(Speeds{}.slower(0.3), 3);
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.unit == GateUnit::session);
  CHECK(metric(result, "P").observations_baseline == 12);
  CHECK(result.verdict == GateVerdict::regression);
}

TEST_CASE("one run of one session is too few to judge by any number of sessions, and the answer asks for more runs") {
  SimulatedMachine machine(21, {.each = 0.01, .session = 0.02});
  const auto baseline = machine.days({}, std::vector<std::size_t>(8, 10));
  const auto one = machine.days(Speeds{}.slower(0.5), {1});
  const GateResult result = compare_results(baseline, one, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(metric(result, "P").reason.find("three or more in its session") != std::string::npos);
  CHECK(compare_results(baseline, machine.days(Speeds{}.slower(0.5), {3}), {}).verdict == GateVerdict::regression);
}

TEST_CASE("that one side came first is told of the sessions in which both ran") {
  const auto told = [](const std::vector<int>& swapped_days) {
    SimulatedMachine machine(16, {.each = 0.005});
    std::vector<GateRun> baseline, current;
    for (int day = 0; day < 4; ++day) {
      machine.next_session();
      const bool swapped = std::ranges::find(swapped_days, day) != swapped_days.end();
      for (GateRun& run : machine.runs({}, 2)) (swapped ? current : baseline).push_back(std::move(run));
      for (GateRun& run : machine.runs({}, 2)) (swapped ? baseline : current).push_back(std::move(run));
    }
    return has_finding(compare_results(baseline, current, {}), "one-after-the-other");
  };
  CHECK(told({}));
  CHECK_FALSE(told({1, 3}));
}

TEST_CASE("runs of sessions that only one side has are left out, and counted, where the others are compared within sessions") {
  SimulatedMachine machine(8, {.each = 0.005});
  std::vector<GateRun> baseline, current;
  for (int i = 0; i < 6; ++i) {
    baseline.push_back(machine.run({}));
    current.push_back(machine.run({}));
  }
  CHECK_FALSE(has_finding(compare_results(baseline, current, {}), "runs-left-out"));
  machine.next_session();
  baseline.push_back(machine.run({}));
  baseline.push_back(machine.run({}));
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.unit == GateUnit::run);
  const auto found = std::ranges::find(result.findings, "runs-left-out", &Finding::code);
  REQUIRE(found != result.findings.end());
  CHECK(found->message.starts_with("2 runs of sessions in which only one side ran"));
}

TEST_CASE("a run that is left out decides nothing by not being trusted, a run that is used does") {
  SimulatedMachine machine(17, {.each = 0.005});
  auto baseline = machine.runs({}, 6);
  const auto current = machine.runs(Speeds{}.slower(0.2), 6);
  machine.next_session();
  baseline.push_back(machine.run({}));
  baseline.back().profile.trusted = false;
  CHECK(compare_results(baseline, current, {}).verdict == GateVerdict::regression);
  baseline[2].profile.trusted = false;
  CHECK(compare_results(baseline, current, {}).verdict == GateVerdict::cannot_tell);
}

TEST_CASE("rates that are absurdly far apart leave a record that can be read") {
  SimulatedMachine machine(18, {.each = 0.005});
  const auto baseline = machine.runs({.prep = 1e-300}, 4);
  const auto current = machine.runs({.prep = 1e300}, 4);
  const std::string text = to_json(compare_results(baseline, current, {}));
  CHECK(to_json(gate_from_json(text, "x")) == text);
}

TEST_CASE("results that do not say when they began are not taken for runs of one session") {
  SimulatedMachine machine(7, {.each = 0.005});
  auto baseline = machine.runs({}, 5);
  auto current = machine.runs(Speeds{}.slower(0.2), 5);
  current[2].profile.started_utc.clear();
  const GateResult result = compare_results(baseline, current, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(has_finding(result, "start-not-known"));
}

TEST_CASE("a metric that a run lacks is named and not compared; one that was asked for leaves the comparison undecided") {
  SimulatedMachine machine(8, {.each = 0.002});
  auto baseline = machine.runs({}, 5);
  auto current = machine.runs({}, 5);
  current[1].profile.storage.reset();
  GateResult result = compare_results(baseline, current, {});
  REQUIRE(result.absent.size() == 1);
  CHECK(result.absent[0].metric == "S");
  CHECK(result.absent[0].reason == "was not measured in 1 of the 5 current runs");
  CHECK(result.verdict == GateVerdict::no_change);
  GateOptions options;
  options.metrics = {"P", "S"};
  result = compare_results(baseline, current, options);
  CHECK(result.verdict == GateVerdict::cannot_tell);
}

TEST_CASE("a run of 0 samples/s is named, not divided by") {
  SimulatedMachine machine(9, {.each = 0.002});
  const auto baseline = machine.runs({}, 3);
  auto current = machine.runs({}, 3);
  current[0].profile.runs[1].samples_per_s = 0;
  const GateResult result = compare_results(baseline, current, {});
  REQUIRE(result.absent.size() == 1);
  CHECK(result.absent[0].metric == "full");
}

TEST_CASE("a run that is not trusted leaves everything undecided unless it is accepted") {
  SimulatedMachine machine(10, {.each = 0.005});
  const auto baseline = machine.runs({}, 6);
  auto current = machine.runs(Speeds{}.slower(0.2), 6);
  current[3].profile.trusted = false;
  current[3].profile.findings = {{"not-cold", Finding::Severity::error, "read from memory"}};
  GateResult result = compare_results(baseline, current, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  CHECK(result.metrics[0].reason.find("not-cold") != std::string::npos);
  GateOptions options;
  options.untrusted = Untrusted::accept;
  CHECK(compare_results(baseline, current, options).verdict == GateVerdict::regression);
}

TEST_CASE("a result is not compared with itself") {
  SimulatedMachine machine(11, {});
  const auto runs = machine.runs({}, 2);
  CHECK_THROWS_WITH_AS(compare_results(runs, runs, {}), doctest::Contains("both sides"), UsageError);
}

TEST_CASE("without a baseline the result is undecided and says how to begin one") {
  SimulatedMachine machine(12, {});
  const auto runs = machine.runs({}, 2);
  const GateResult result = result_without_baseline({"my baselines"}, runs, {});
  CHECK(result.verdict == GateVerdict::cannot_tell);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].message.find("gate accept " + runs[0].source) != std::string::npos);
  CHECK(result.findings[0].message.find("--baseline 'my baselines'") != std::string::npos);
}

TEST_CASE("the record reads back as it was written") {
  SimulatedMachine machine(13, {});
  const auto baseline = machine.runs({}, 3);
  auto current = machine.runs({}, 3);
  for (GateRun& run : current) run.profile.settings.workers = 9;
  GateOptions options;
  options.ignore = {"settings.workers"};
  options.metrics = {"all"};
  const std::string text = to_json(compare_results(baseline, current, options));
  CHECK(to_json(gate_from_json(text, "x")) == text);
  CHECK_THROWS_AS(gate_from_json("{\"schema\": \"dsanalyze.profile/1\"}", "x"), UsageError);
}
