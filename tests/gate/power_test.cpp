// The gate's statistics over simulated comparisons with fixed seeds: few enough to be quick; tests/bench/gate_power.cpp has more of them.

#include <doctest/doctest.h>

#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::Noise;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

constexpr int comparisons = 100;

template <typename Compare>
double share_of(GateVerdict verdict, const Compare& compare) {
  int found = 0;
  for (int i = 0; i < comparisons; ++i) found += compare(static_cast<std::uint64_t>(i)) == verdict ? 1 : 0;
  return static_cast<double>(found) / comparisons;
}

GateVerdict of_files(std::uint64_t seed, const Scatter& scatter, const Speeds& current, std::size_t runs = 13) {
  SimulatedMachine machine(mix(seed, 1), scatter);
  const auto before = machine.runs({}, runs);
  return compare_results(before, machine.runs(current, runs), {}).verdict;
}

GateVerdict by_turns(std::uint64_t seed, const Scatter& scatter, const Speeds& current) {
  SimulatedMachine machine(mix(seed, 2), scatter);
  const GateCommands commands{.baseline = "old", .current = "new"};
  GateOptions options;
  options.seed = seed;
  ManualTiming timing;
  const auto runner = [&](GateSideName side) { return machine.run(side == GateSideName::baseline ? Speeds{} : current).profile; };
  return compare_commands(commands, options, runner, null_events(), {}, timing).verdict;
}

}  // namespace

TEST_CASE("equal runs hardly raise an alarm, however they scatter and drift") {
  // 0.75 of a hundred are expected at most; more than three would be seen in one draw of a hundred and fifty.
  using enum GateVerdict;
  CHECK(share_of(regression, [](std::uint64_t seed) { return of_files(seed, {}, {}); }) <= 0.03);
  CHECK(share_of(regression, [](std::uint64_t seed) { return of_files(seed, {.each = 0.1}, {}, 4); }) <= 0.03);
  CHECK(share_of(regression, [](std::uint64_t seed) { return of_files(seed, {.each = 0.03, .noise = Noise::heavy_tailed}, {}); }) <= 0.03);
  CHECK(share_of(regression, [](std::uint64_t seed) { return by_turns(seed, {}, {}); }) <= 0.03);
  CHECK(share_of(regression, [](std::uint64_t seed) { return by_turns(seed, {.each = 0.02, .drift = -0.2}, {}); }) <= 0.03);
}

TEST_CASE("a loader that is 5 % slower is found in 95 of 100 comparisons at 3 % scatter") {
  using enum GateVerdict;
  CHECK(share_of(regression, [](std::uint64_t seed) { return of_files(seed, {}, Speeds{}.slower(0.05)); }) >= 0.95);
  CHECK(share_of(regression, [](std::uint64_t seed) { return by_turns(seed, {}, Speeds{}.slower(0.05)); }) >= 0.95);
}
