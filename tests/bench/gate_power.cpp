// How often the gate raises a false alarm and how often it finds a slow-down, over simulated comparisons:
//   gate_power [COMPARISONS [WORD]]      1,000; twice as many of equal sides; only rows with that word in their form or name
// Runs scatter by 3 % unless the row says otherwise: each metric by itself, or all together (correlations of 0.84), normal or by Student's t with 4
// degrees of freedom. "Loader" is P, cached and full all 5 % slower, "prep alone" is --metrics P.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "simulated_profiles.hpp"

using namespace dsanalyze;
using test::Noise;
using test::Scatter;
using test::SimulatedMachine;
using test::Speeds;

namespace {

struct Tally {
  int regressions = 0, undecided = 0, others = 0;
  double runs = 0;
  void add(const GateResult& result) {
    runs += static_cast<double>(result.baseline.runs);
    (result.verdict == GateVerdict::regression ? regressions : result.verdict == GateVerdict::cannot_tell ? undecided : others) += 1;
  }
  void add(const Tally& other) {
    regressions += other.regressions;
    undecided += other.undecided;
    others += other.others;
    runs += other.runs;
  }
};

constexpr double slow_down = 0.05;
std::string chosen_word;

struct Row {
  std::string name;
  Scatter scatter;
  double slower = 0;
  std::vector<std::string> metrics = {};

  [[nodiscard]] Speeds current() const { return Speeds{}.slower(slower); }
};

GateOptions options_of(const Row& row, int comparison) {
  GateOptions options;
  options.metrics = row.metrics;
  options.seed = static_cast<std::uint64_t>(comparison);
  return options;
}

GateResult of_files(const Row& row, int comparison, std::size_t runs) {
  SimulatedMachine machine(mix(static_cast<std::uint64_t>(comparison), runs), row.scatter);
  const auto baseline = machine.runs({}, runs);
  const auto current = machine.runs(row.current(), runs);
  return compare_results(baseline, current, options_of(row, comparison));
}

GateResult by_turns(const Row& row, int comparison) {
  SimulatedMachine machine(mix(static_cast<std::uint64_t>(comparison), 99), row.scatter);
  const GateCommands commands{.baseline = "old", .current = "new"};
  ManualTiming timing;
  const auto runner = [&](GateSideName side) { return machine.run(side == GateSideName::baseline ? Speeds{} : row.current()).profile; };
  return compare_commands(commands, options_of(row, comparison), runner, null_events(), {}, timing);
}

/// Eight days of three runs against three runs of a ninth.
GateResult of_days(const Row& row, int comparison) {
  SimulatedMachine machine(mix(static_cast<std::uint64_t>(comparison), 77), row.scatter);
  std::vector<GateRun> baseline;
  for (int day = 0; day < 8; ++day) {
    machine.next_session();
    for (GateRun& run : machine.runs({}, 3)) baseline.push_back(std::move(run));
  }
  machine.next_session();
  return compare_results(baseline, machine.runs(row.current(), 3), options_of(row, comparison));
}

template <typename Compare>
Tally tally_of(const Row& row, int comparisons, const Compare& compare) {
  const int threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, comparisons);
  std::vector<Tally> tallies(static_cast<std::size_t>(threads));
  {
    std::vector<std::jthread> workers;
    for (int thread = 0; thread < threads; ++thread)
      workers.emplace_back([&, thread] {
        for (int i = thread; i < comparisons; i += threads) tallies[static_cast<std::size_t>(thread)].add(compare(row, i));
      });
  }
  Tally all;
  for (const Tally& tally : tallies) all.add(tally);
  return all;
}

template <typename Compare>
void print_row(const std::string& form, const Row& row, int comparisons, const Compare& compare) {
  if ((form + ", " + row.name).find(chosen_word) == std::string::npos) return;
  const int count = row.slower > 0 ? comparisons : 2 * comparisons;
  const Tally tally = tally_of(row, count, compare);
  const auto percent = [count](int found) { return 100.0 * found / count; };
  fmt::print("{:<22} {:<44} {:>11} {:>9.2f} % {:>8.2f} % {:>8.2f} % {:>6.1f}\n", form, row.name, count, percent(tally.regressions),
             percent(tally.undecided), percent(tally.others), tally.runs / count);
  std::fflush(stdout);
}

void print_rows(int comparisons) {
  const Scatter shared{.each = 0.012, .shared = 0.0275};
  const Scatter heavy{.noise = Noise::heavy_tailed};
  const Scatter heavy_shared{.each = 0.012, .shared = 0.0275, .noise = Noise::heavy_tailed};
  const Row wide{"equal, 10 % scatter", {.each = 0.1}};
  const Row wide_shared{"equal, 10 % scatter, together", {.each = 0.04, .shared = 0.0917}};
  const std::vector<Row> rows = {{"equal", {}},
                                 {"equal, together", shared},
                                 {"equal, heavy tails", heavy},
                                 {"equal, together, heavy tails", heavy_shared},
                                 wide,
                                 wide_shared,
                                 {"equal, 10 % scatter, prep alone", {.each = 0.1}, 0, {"P"}},
                                 {"loader 5 % slower", {}, slow_down},
                                 {"loader 5 % slower, together", shared, slow_down},
                                 {"loader 5 % slower, heavy tails", heavy, slow_down},
                                 {"loader 5 % slower, together, heavy tails", heavy_shared, slow_down}};
  const Row prep{"prep alone 5 % slower", {}, slow_down, {"P"}};
  const std::vector<Row> drifting = {{"equal, machine drifts by 20 %", {.drift = -0.2}},
                                     {"loader 5 % slower, drifts by 20 %", {.drift = -0.2}, slow_down}};
  const std::vector<Row> days = {{"equal, days differ by 5 %", {.session = 0.05}}, {"loader 20 % slower, days by 3 %", {.session = 0.03}, 0.2}};
  fmt::print("{:<22} {:<44} {:>11} {:>11} {:>10} {:>10} {:>6}\n", "form", "sides", "comparisons", "regression", "undecided", "no worse", "runs");
  const auto of_results = [&](const Row& row, std::size_t runs) {
    print_row(fmt::format("results, {} a side", runs), row, comparisons, [runs](const Row& each, int i) { return of_files(each, i, runs); });
  };
  for (const Row& row : rows) of_results(row, 13);
  for (const std::size_t runs : {13, 14, 15, 16}) of_results(prep, runs);
  for (const Row& row : {wide, wide_shared}) of_results(row, 4);
  for (const Row& row : rows) print_row("by turns", row, comparisons, by_turns);
  print_row("by turns", prep, comparisons, by_turns);
  for (const Row& row : drifting) print_row("by turns", row, comparisons, by_turns);
  for (const Row& row : days) print_row("results, 8 days and 1", row, comparisons, of_days);
}

}  // namespace

int main(int argc, char** argv) {
  const int comparisons = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (argc > 2) chosen_word = argv[2];
  if (comparisons < 1) {
    fmt::print(stderr, "usage: gate_power [COMPARISONS [WORD]]\n");
    return 2;
  }
  print_rows(comparisons);
  return 0;
}
