// The gate's statistics over simulated comparisons with fixed seeds: few enough to be quick; tests/bench/gate_power.cpp has more of them.

#include <doctest/doctest.h>

#include <cmath>

#include "../base/sanitizers.hpp"
#include "simulated_profiles.hpp"
#include "statistics.hpp"

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

TEST_CASE("a loader that is 5 % slower is found in 95 of 100 comparisons at 3 % scatter") {
  using enum GateVerdict;
  const int least = least_of(0.95);
  const Scatter together{.each = 0.012, .shared = 0.0275};
  CHECK(count_of(regression, [](std::uint64_t seed) { return of_files(seed, {}, Speeds{}.slower(0.05)); }) >= least);
  CHECK(count_of(regression, [&](std::uint64_t seed) { return of_files(seed, together, Speeds{}.slower(0.05)); }) >= least);
  CHECK(count_of(regression, [](std::uint64_t seed) { return by_turns(seed, {}, Speeds{}.slower(0.05)); }) >= least);
}

TEST_CASE("prep alone 5 % slower is found by turns in 95 of 100 comparisons at 3 % scatter") {
  CHECK(count_of(GateVerdict::regression, [](std::uint64_t seed) { return by_turns(seed, {}, Speeds{}.slower(0.05), {"P"}); }) >= least_of(0.95));
}
