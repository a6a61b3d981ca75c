// How often the gate raises a false alarm and how often it finds a slow-down, over simulated comparisons:
//   gate_power [COMPARISONS [WORD]]      1,000; twice as many of equal sides; only rows with that word in their form or name
// Runs scatter by 3 % unless the row says otherwise: each metric by itself, or all together (correlations of 0.84), normal or by Student's t with 4
// degrees of freedom. "Loader" is P, cached and full all 5 % slower, "prep alone" is --metrics P.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "../gate/simulated_profiles.hpp"

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

/// How many runs each session of either side has. The sides share no session, unless they are of one each.
struct Design {
  std::string name;
  std::vector<std::size_t> baseline, current;
  bool one_session = false;
};

GateResult of_design(const Row& row, int comparison, const Design& design) {
  SimulatedMachine machine(mix(static_cast<std::uint64_t>(comparison), 77), row.scatter);
  const auto baseline = machine.days({}, design.baseline);
  const auto current = design.one_session ? machine.runs(row.current(), design.current.front()) : machine.days(row.current(), design.current);
  return compare_results(baseline, current, options_of(row, comparison));
}

/// Sessions of unequal numbers of runs, few and many of them, and sides of unequal numbers of runs in one session.
const std::vector<Design>& unbalanced() {
  using Counts = std::vector<std::size_t>;
  static const std::vector<Design> designs = {{"8x10 and 1x1", Counts(8, 10), {1}},          {"8x10 and 1x2", Counts(8, 10), {2}},
                                              {"8x10 and 1x3", Counts(8, 10), {3}},          {"8x3 and 1x3", Counts(8, 3), {3}},
                                              {"12x1 and 1x3", Counts(12, 1), {3}},          {"2x10 and 1x3", Counts(2, 10), {3}},
                                              {"2x1 and 5x3", Counts(2, 1), Counts(5, 3)},   {"5x3 and 2x1", Counts(5, 3), Counts(2, 1)},
                                              {"4x1 and 4x10", Counts(4, 1), Counts(4, 10)}, {"1, 5, 10 and 2x2", {1, 5, 10}, Counts(2, 2)},
                                              {"1, 1, 10, 10 and 1x3", {1, 1, 10, 10}, {3}}, {"13 and 3 of one", {13}, {3}, true},
                                              {"40 and 5 of one", {40}, {5}, true},          {"20 and 2 of one", {20}, {2}, true},
                                              {"13 and 1 of one", {13}, {1}, true}};
  return designs;
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
                                 {"equal, 1 % scatter, prep alone", {.each = 0.01}, 0, {"P"}},
                                 {"equal, 1 %, bursts on 5 %, prep alone", {.each = 0.01, .bursts = 0.05}, 0, {"P"}},
                                 {"equal, 1 % together, bursts on 5 %", {.each = 0.005, .shared = 0.01, .bursts = 0.05}},
                                 {"prep 5 % slower, 1 %, bursts on 5 %", {.each = 0.01, .bursts = 0.05}, slow_down, {"P"}},
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
  for (const Row& row : rows) print_row("alternating", row, comparisons, by_turns);
  print_row("alternating", prep, comparisons, by_turns);
  for (const Row& row : drifting) print_row("alternating", row, comparisons, by_turns);
  const auto of_sessions = [&](const Row& row, const Design& design) {
    print_row("results, " + design.name, row, comparisons, [&design](const Row& each, int i) { return of_design(each, i, design); });
  };
  for (const Row& row : days) of_sessions(row, {"8 days and 1", std::vector<std::size_t>(8, 3), {3}});
  // One metric has no others to share the level with, and 10 % let only the interval stand between it and an alarm.
  for (const Design& design : unbalanced())
    for (const auto noise : {Noise::normal, Noise::heavy_tailed})
      for (const double session : {0.0, 0.1}) {
        if (design.one_session && session > 0) continue;
        const std::string tails = noise == Noise::normal ? "" : ", heavy tails";
        of_sessions({fmt::format("equal, 10 % scatter, sessions {:.0f} %{}", 100 * session, tails),
                     {.each = 0.1, .session = session, .noise = noise},
                     0,
                     {"P"}},
                    design);
      }
  for (const Design& design : unbalanced()) of_sessions({"equal, bursts on 5 % of runs", {.session = 0.01, .bursts = 0.05}, 0, {"P"}}, design);
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
