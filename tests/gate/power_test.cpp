// The gate's statistics over simulated comparisons with fixed seeds: few enough to be quick; tests/bench/gate_power.cpp has more of them.

#include <doctest/doctest.h>

#include <cmath>

#include "simulated_profiles.hpp"
#include "statistics.hpp"

using namespace dsanalyze;
using test::Noise;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

/// How many of `comparisons` are found with a seed each. The bounds below are what chance exceeds once in 10,000 draws of the seeds.
constexpr int comparisons = 100;
constexpr double by_chance = 1e-4;

/// The least count that so many trials of probability `p` exceed with at most `by_chance`.
int most_of(double p) {
  double term = std::pow(1 - p, comparisons);
  double sum = term;
  int count = 0;
  for (; 1 - sum > by_chance; ++count) {
    term *= (comparisons - count) / (count + 1.0) * p / (1 - p);
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

GateVerdict of_files(std::uint64_t seed, const Scatter& scatter, const Speeds& current, std::size_t runs = 13) {
  SimulatedMachine machine(mix(seed, 1), scatter);
  const auto before = machine.runs({}, runs);
  return compare_results(before, machine.runs(current, runs), {}).verdict;
}

/// A run a side on each of several days.
GateVerdict day_by_day(std::uint64_t seed, const Scatter& scatter, int days) {
  SimulatedMachine machine(mix(seed, 3), scatter);
  std::vector<GateRun> before, after;
  for (int day = 0; day < days; ++day) {
    machine.next_session();
    before.push_back(machine.run({}));
    after.push_back(machine.run({}));
  }
  return compare_results(before, after, {}).verdict;
}

GateVerdict by_turns(std::uint64_t seed, const Scatter& scatter, const Speeds& current, const std::vector<std::string>& metrics = {}) {
  SimulatedMachine machine(mix(seed, 2), scatter);
  const GateCommands commands{.baseline = "old", .current = "new"};
  GateOptions options;
  options.seed = seed;
  options.metrics = metrics;
  ManualTiming timing;
  const auto runner = [&](GateSideName side) { return machine.run(side == GateSideName::baseline ? Speeds{} : current).profile; };
  return compare_commands(commands, options, runner, null_events(), {}, timing).verdict;
}

}  // namespace

TEST_CASE("the bounds of these tests are the binomial distribution's") {
  CHECK(most_of(0.0075) == 6);  // P(more than 6 of 100 at 0.75 %) = 1.1e-5, P(more than 5) = 1.2e-4
  CHECK(least_of(0.95) == 85);
}

TEST_CASE("equal runs raise an alarm no more often than the stated level lets them, however they scatter and drift") {
  using enum GateVerdict;
  const int most = most_of(gate::family_alpha);
  const Scatter together{.each = 0.04, .shared = 0.0917};
  const Scatter heavy{.each = 0.03, .noise = Noise::heavy_tailed};
  CHECK(count_of(regression, [](std::uint64_t seed) { return of_files(seed, {}, {}); }) <= most);
  CHECK(count_of(regression, [](std::uint64_t seed) { return of_files(seed, {.each = 0.1}, {}, 4); }) <= most);
  CHECK(count_of(regression, [&](std::uint64_t seed) { return of_files(seed, together, {}); }) <= most);
  CHECK(count_of(regression, [](std::uint64_t seed) { return day_by_day(seed, {.each = 0.1, .session = 0.2}, 6); }) <= most);
  CHECK(count_of(regression, [&](std::uint64_t seed) { return of_files(seed, heavy, {}); }) <= most);
  CHECK(count_of(regression, [](std::uint64_t seed) { return by_turns(seed, {}, {}); }) <= most);
  CHECK(count_of(regression, [&](std::uint64_t seed) { return by_turns(seed, together, {}); }) <= most);
  CHECK(count_of(regression, [](std::uint64_t seed) { return by_turns(seed, {.each = 0.02, .drift = -0.2}, {}); }) <= most);
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
