// How often the gate raises a false alarm and how often it finds a slow-down, over simulated comparisons:
//   gate_power [COMPARISONS]      (1,000)
// Runs scatter by 3 % unless the row says otherwise; "loader" is P, cached and full all 5 % slower, "prep alone" is --metrics P.

#include <fmt/format.h>

#include <cstdlib>

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
};

struct Row {
  std::string name;
  Scatter scatter;
  Speeds current;
  std::vector<std::string> metrics;
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
  const auto current = machine.runs(row.current, runs);
  return compare_results(baseline, current, options_of(row, comparison));
}

GateResult by_turns(const Row& row, int comparison) {
  SimulatedMachine machine(mix(static_cast<std::uint64_t>(comparison), 99), row.scatter);
  const GateCommands commands{.baseline = "old", .current = "new"};
  ManualTiming timing;
  const auto runner = [&](GateSideName side) { return machine.run(side == GateSideName::baseline ? Speeds{} : row.current).profile; };
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
  return compare_results(baseline, machine.runs(row.current, 3), options_of(row, comparison));
}

template <typename Compare>
void print_row(const std::string& form, const Row& row, int comparisons, const Compare& compare) {
  Tally tally;
  for (int i = 0; i < comparisons; ++i) tally.add(compare(row, i));
  const auto percent = [comparisons](int count) { return 100.0 * count / comparisons; };
  fmt::print("{:<22} {:<38} {:>8.2f} % {:>8.2f} % {:>8.2f} % {:>8.1f}\n", form, row.name, percent(tally.regressions), percent(tally.undecided),
             percent(tally.others), tally.runs / comparisons);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int comparisons = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (comparisons < 1) {
    fmt::print(stderr, "usage: gate_power [COMPARISONS]\n");
    return 2;
  }
  const Speeds same;
  const Speeds slow = same.slower(0.05);
  const Scatter shared{.each = 0.012, .shared = 0.0275};
  const Scatter heavy{.noise = Noise::heavy_tailed};
  const std::vector<Row> rows = {{"equal", {}, same, {}},
                                 {"equal, metrics move together", shared, same, {}},
                                 {"equal, heavy tails", heavy, same, {}},
                                 {"equal, 10 % scatter", {.each = 0.1}, same, {}},
                                 {"loader 5 % slower", {}, slow, {}},
                                 {"loader 5 % slower, move together", shared, slow, {}},
                                 {"loader 5 % slower, heavy tails", heavy, slow, {}},
                                 {"prep alone 5 % slower", {}, slow, {"P"}}};
  const std::vector<Row> drifting = {{"equal, machine drifts by 20 %", {.drift = -0.2}, same, {}},
                                     {"loader 5 % slower, drifts by 20 %", {.drift = -0.2}, slow, {}}};
  const std::vector<Row> days = {{"equal, days differ by 5 %", {.session = 0.05}, same, {}},
                                 {"loader 20 % slower", {.session = 0.03}, same.slower(0.2), {}}};
  fmt::print("{:<22} {:<38} {:>10} {:>10} {:>10} {:>8}\n", "form", fmt::format("{} comparisons of", comparisons), "regression", "undecided",
             "no worse", "runs");
  for (const Row& row : rows) print_row("results, 13 a side", row, comparisons, [](const Row& each, int i) { return of_files(each, i, 13); });
  print_row("results, 4 a side", rows[3], comparisons, [](const Row& each, int i) { return of_files(each, i, 4); });
  for (const Row& row : rows) print_row("by turns", row, comparisons, by_turns);
  for (const Row& row : drifting) print_row("by turns", row, comparisons, by_turns);
  for (const Row& row : days) print_row("results, 8 days and 1", row, comparisons, of_days);
  return 0;
}
