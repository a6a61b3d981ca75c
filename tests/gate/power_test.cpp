// The gate's statistics over simulated comparisons with fixed seeds: few enough to be quick; tests/bench/gate_power.cpp has more of them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "../base/sanitizers.hpp"
#include "gate/statistics.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::Noise;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

constexpr int comparisons = 100;
/// The bounds below are what chance exceeds once in 10,000 draws of the seeds.
constexpr double by_chance = 1e-4;

/// The least count that so many trials of probability `p` exceed with at most `by_chance`.
int most_of(double p, int trials = comparisons) {
  double term = std::pow(1 - p, trials);
  double sum = term;
  int count = 0;
  for (; 1 - sum > by_chance; ++count) {
    term *= (trials - count) / (count + 1.0) * p / (1 - p);
    sum += term;
  }
  return count;
}
int least_of(double p) { return comparisons - most_of(1 - p); }

template <typename Compare>
int count_of(GateVerdict verdict, const Compare& compare) {
  int found = 0;
  for (int i = 0; i < comparisons; ++i) found += compare(static_cast<std::uint64_t>(i)) == verdict ? 1 : 0;
  return found;
}

GateOptions only(const std::vector<std::string>& metrics) {
  GateOptions options;
  options.metrics = metrics;
  return options;
}

GateVerdict of_files(std::uint64_t seed, const Scatter& scatter, const Speeds& current, std::size_t runs = 13,
                     const std::vector<std::string>& metrics = {}) {
  SimulatedMachine machine(mix(seed, 1), scatter);
  const auto before = machine.runs({}, runs);
  return compare_results(before, machine.runs(current, runs), only(metrics)).verdict;
}

/// So many equal runs of each side on every one of several days.
struct Day {
  std::size_t before = 1, after = 1;
};
GateVerdict day_by_day(std::uint64_t seed, const Scatter& scatter, const std::vector<Day>& days, const std::vector<std::string>& metrics = {}) {
  SimulatedMachine machine(mix(seed, 3), scatter);
  std::vector<GateRun> before, after;
  for (const Day& day : days) {
    machine.next_session();
    for (GateRun& run : machine.runs({}, day.before)) before.push_back(std::move(run));
    for (GateRun& run : machine.runs({}, day.after)) after.push_back(std::move(run));
  }
  return compare_results(before, after, only(metrics)).verdict;
}

GateVerdict by_turns(std::uint64_t seed, const Scatter& scatter, const Speeds& current, const std::vector<std::string>& metrics = {}) {
  SimulatedMachine machine(mix(seed, 2), scatter);
  const GateCommands commands{.baseline = "old", .current = "new"};
  GateOptions options = only(metrics);
  options.seed = seed;
  ManualTiming timing;
  const auto runner = [&](GateSideName side) { return machine.run(side == GateSideName::baseline ? Speeds{} : current).profile; };
  return compare_commands(commands, options, runner, null_events(), {}, timing).verdict;
}

}  // namespace

TEST_CASE("the bounds of these tests are the binomial distribution's") {
  CHECK(most_of(0.0075) == 6);  // P(more than 6 of 100 at 0.75 %) = 1.1e-5, P(more than 5) = 1.2e-4
  CHECK(least_of(0.95) == 85);
}

TEST_CASE("equal runs raise an alarm no more often than the stated level lets them, however they scatter and drift" *
          doctest::skip(testing::too_often)) {
  using enum GateVerdict;
  const Scatter together{.each = 0.04, .shared = 0.0917};
  const Scatter heavy{.each = 0.03, .noise = Noise::heavy_tailed};
  const Scatter days{.each = 0.1, .session = 0.2};
  const std::vector<Day> even(6), uneven{{1, 4}, {4, 1}, {1, 2}, {3, 1}};
  int alarms = 0, all = 0;
  const auto check = [&](const auto& compare, int trials = comparisons) {
    int found = 0;
    for (int i = 0; i < trials; ++i) found += compare(static_cast<std::uint64_t>(i)) == regression ? 1 : 0;
    CHECK(found <= most_of(gate::family_alpha, trials));
    alarms += found;
    all += trials;
  };
  check([](std::uint64_t seed) { return of_files(seed, {}, {}); });
  check([](std::uint64_t seed) { return of_files(seed, {.each = 0.1}, {}, 4); });
  check([&](std::uint64_t seed) { return of_files(seed, together, {}); });
  check([&](std::uint64_t seed) { return of_files(seed, heavy, {}); });
  check([&](std::uint64_t seed) { return day_by_day(seed, days, even); });
  check([](std::uint64_t seed) { return by_turns(seed, {}, {}); });
  check([&](std::uint64_t seed) { return by_turns(seed, together, {}); });
  check([](std::uint64_t seed) { return by_turns(seed, {.each = 0.02, .drift = -0.2}, {}); });
  // One metric has no others to share the level with, and scatters enough that only the interval stands between it and an alarm.
  check([](std::uint64_t seed) { return of_files(seed, {.each = 0.1}, {}, 13, {"P"}); }, 500);
  check([&](std::uint64_t seed) { return day_by_day(seed, days, even, {"P"}); }, 500);
  check([&](std::uint64_t seed) { return day_by_day(seed, days, uneven, {"P"}); }, 500);
  CHECK(alarms <= most_of(gate::family_alpha, all));
}

TEST_CASE("one run of another day beside many baselines raises no alarms") {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SimulatedMachine machine(mix(seed, 4), {.each = 0.1});
    const auto baseline = machine.days({}, std::vector<std::size_t>(8, 10));
    found += compare_results(baseline, machine.days({}, {1}), only({"P"})).verdict == GateVerdict::regression ? 1 : 0;
  }
  CHECK(found <= most_of(gate::family_alpha, 60));
}

TEST_CASE("contrasts between sessions of unequal numbers of runs err as often as they may, however sessions differ and with heavy tails" *
          doctest::skip(testing::too_often)) {
  using Counts = std::vector<std::size_t>;
  struct Design {
    std::string name;
    Counts before, after;
  };
  constexpr int draws = 1000;
  for (const Design& design : {Design{"8x10 and 1x2", Counts(8, 10), {2}}, Design{"8x10 and 1x3", Counts(8, 10), {3}},
                               Design{"8x3 and 1x3", Counts(8, 3), {3}}, Design{"2x1 and 5x3", Counts(2, 1), Counts(5, 3)},
                               Design{"4x1 and 4x10", Counts(4, 1), Counts(4, 10)}, Design{"1, 5, 10 and 2x2", {1, 5, 10}, {2, 2}}}) {
    CAPTURE(design.name);
    for (const double session : {0.0, 1.0})
      for (const Noise noise : {Noise::normal, Noise::heavy_tailed}) {
        test::Deviates deviates(mix(7, draws), noise);
        const auto drawn = [&](const Counts& counts) {
          gate::SessionRuns runs;
          for (const std::size_t count : counts) {
            const double shift = session * deviates.next();
            runs.emplace_back();
            for (std::size_t i = 0; i < count; ++i) runs.back().push_back(shift + deviates.next());
          }
          return runs;
        };
        int alarms = 0;
        for (int i = 0; i < draws; ++i) {
          const gate::Contrast contrast = gate::between_sessions(drawn(design.before), drawn(design.after));
          alarms += contrast.estimate < -gate::margin(contrast, gate::family_alpha) ? 1 : 0;
        }
        CHECK(alarms <= most_of(gate::family_alpha, draws));
      }
  }
}

TEST_CASE("samples of unequal numbers of runs err as often as they may") {
  constexpr int draws = 1000;
  struct Counts {
    int before, after;
  };
  for (const Counts counts : {Counts{20, 2}, Counts{13, 3}, Counts{40, 5}, Counts{13, 13}})
    for (const Noise noise : {Noise::normal, Noise::heavy_tailed}) {
      test::Deviates deviates(mix(8, draws), noise);
      int alarms = 0;
      for (int i = 0; i < draws; ++i) {
        std::vector<double> baseline(static_cast<std::size_t>(counts.before)), current(static_cast<std::size_t>(counts.after));
        for (double& value : baseline) value = deviates.next();
        for (double& value : current) value = deviates.next();
        const gate::Contrast contrast = gate::two_samples(baseline, current);
        alarms += contrast.estimate < -gate::margin(contrast, gate::family_alpha) ? 1 : 0;
      }
      INFO(counts.before, " runs against ", counts.after);
      CHECK(alarms <= most_of(gate::family_alpha, draws));
    }
}

TEST_CASE("bursts of other work on a fifth of the runs raise no more alarms than the level lets them, however few the runs are" *
          doctest::skip(testing::too_often)) {
  constexpr int draws = 700;
  for (const std::size_t runs : {2U, 3U}) {
    CAPTURE(runs);
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < draws; ++seed) {
      const GateVerdict verdict = of_files(seed, {.each = 0.01, .bursts = 0.2}, {}, runs, {"P"});
      wrong += verdict == GateVerdict::regression || verdict == GateVerdict::improvement ? 1 : 0;
    }
    CHECK(wrong <= most_of(2 * gate::family_alpha, draws));
  }
}

TEST_CASE("bursts of other work on 5 % of the runs leave 9 of 10 interleaved comparisons decided" * doctest::skip(testing::too_often)) {
  const Scatter bursts{.each = 0.01, .bursts = 0.05};
  CHECK(count_of(GateVerdict::no_change, [&](std::uint64_t seed) { return by_turns(seed, bursts, {}, {"P"}); }) >= 90);
  CHECK(count_of(GateVerdict::regression, [&](std::uint64_t seed) { return by_turns(seed, bursts, Speeds{}.slower(0.05), {"P"}); }) >= 90);
}

TEST_CASE("one burst among twenty pairs changes no verdict") {
  SimulatedMachine machine(8, {.each = 0.003});
  const GateCommands commands{.baseline = "old", .current = "new"};
  ManualTiming timing;
  int runs = 0;
  const auto runner = [&](GateSideName) { return machine.run(++runs == 9 ? Speeds{}.slower(0.6) : Speeds{}).profile; };
  const GateResult result = compare_commands(commands, only({"P"}), runner, null_events(), {}, timing);
  CHECK(result.verdict == GateVerdict::no_change);
  CHECK(std::ranges::any_of(result.findings, [](const Finding& finding) { return finding.code == "far-off"; }));
}

TEST_CASE("a loader that is 5 % slower is found in 95 of 100 interleaved comparisons at 3 % scatter" * doctest::skip(testing::too_often)) {
  using enum GateVerdict;
  const int least = least_of(0.95);
  const Scatter together{.each = 0.012, .shared = 0.0275};
  CHECK(count_of(regression, [](std::uint64_t seed) { return of_files(seed, {}, Speeds{}.slower(0.05)); }) >= least);
  CHECK(count_of(regression, [&](std::uint64_t seed) { return of_files(seed, together, Speeds{}.slower(0.05)); }) >= least);
  CHECK(count_of(regression, [](std::uint64_t seed) { return by_turns(seed, {}, Speeds{}.slower(0.05)); }) >= least);
}

TEST_CASE("prep alone 5 % slower is found in 95 of 100 interleaved comparisons at 3 % scatter" * doctest::skip(testing::too_often)) {
  CHECK(count_of(GateVerdict::regression, [](std::uint64_t seed) { return by_turns(seed, {}, Speeds{}.slower(0.05), {"P"}); }) >= least_of(0.95));
}
