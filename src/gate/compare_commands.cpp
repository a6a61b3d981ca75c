#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/random.hpp"
#include "judge.hpp"

namespace dsanalyze {
namespace gate {
namespace {

constexpr int least_pairs = 3;  // before which a scatter is a guess
/// Pairs with a run that is not trusted are run again, but not for ever: for every so many pairs one, and at least so many.
constexpr int pairs_a_repetition = 4;
constexpr int least_repetitions = 3;

/// After how many pairs is looked: 40, 60, 80 and 100 % of the most.
std::vector<int> planned_looks(int most) {
  std::vector<int> looks;
  for (const double share : {0.4, 0.6, 0.8, 1.0}) {
    const int pairs = std::max(static_cast<int>(std::lround(share * most)), least_pairs);
    if (looks.empty() || pairs > looks.back()) looks.push_back(std::min(pairs, most));
  }
  return looks;
}

/// Which side begins a pair: blocks of two pairs, ABBA or BAAB, so that a steady drift cancels within each.
class Turns {
 public:
  explicit Turns(std::uint64_t seed) : m_random(mix(seed, 0x7475'726e)) {}
  GateSideName first(int pair) {
    if (pair % 2 == 0) {
      m_baseline_first = m_random.below(2) == 0;
    } else {
      m_baseline_first = !m_baseline_first;
    }
    return m_baseline_first ? GateSideName::baseline : GateSideName::current;
  }

 private:
  RandomStream m_random;
  bool m_baseline_first = true;
};

GateSideName other(GateSideName side) { return side == GateSideName::baseline ? GateSideName::current : GateSideName::baseline; }

Compared compared_pairs(const Series& series) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < series.baseline.size(); ++i) differences.push_back(series.current[i] - series.baseline[i]);
  const Contrast contrast = paired(differences);
  const double centre = (trimmed_mean(series.baseline).value + trimmed_mean(series.current).value) / 2;
  Compared compared{series.kind, centre - contrast.estimate / 2, centre + contrast.estimate / 2, differences.size(), differences.size(), contrast};
  bound_below(compared, series, differences.size(), differences.size());
  return compared;
}

class Interleaving {
 public:
  Interleaving(const GateCommands& commands, const GateOptions& options, const GateRunner& runner, EventSink& events, const std::stop_token& stop,
               const Clock& clock)
      : m_commands(commands), m_options(options), m_runner(runner), m_events(events), m_stop(stop), m_clock(clock), m_begin(clock.now()) {}

  GateResult compare() {
    for (int i = 0; i < m_commands.warm_ups; ++i)
      for (const GateSideName side : {GateSideName::baseline, GateSideName::current}) warm_up(side);
    Turns turns(m_options.seed);
    std::optional<GateResult> result;
    const std::vector<int> looks = planned_looks(m_commands.most_pairs);
    int pairs = 0;
    for (; pairs < m_commands.most_pairs && !is_hopeless() && (pairs == 0 || time_for_another()); ++pairs) {
      run_pair(pairs, turns.first(pairs));
      if (std::ranges::find(looks, pairs + 1) == looks.end()) continue;
      result = look(pairs + 1);
      m_events.note(fmt::format("after {} pairs: {}, {}", pairs + 1, gate_verdict_name(result->verdict), result->reason));
      if (result->verdict != GateVerdict::cannot_tell) break;
    }
    const bool out_of_time = pairs < m_commands.most_pairs && !is_hopeless() && (!result || result->verdict == GateVerdict::cannot_tell);
    if (m_seen.empty() || ((out_of_time || is_hopeless()) && m_seen.back() != pairs)) result = look(pairs);
    if (out_of_time)
      result->findings.push_back(
          {"time-budget-spent", Finding::Severity::warning,
           fmt::format("the time budget ended the comparison after {} of {} pairs: give it more with --time-budget.", pairs, m_commands.most_pairs)});
    if (m_repeated > 0)
      result->findings.push_back({"pairs-repeated", Finding::Severity::info,
                                  fmt::format("{} pairs were run again, as a run of theirs was not trusted ({}).", m_repeated, m_repetition_cause)});
    result->seconds = to_seconds(m_clock.now() - m_begin);
    return *result;
  }

 private:
  GateRun run(GateSideName side) {
    if (m_stop.stop_requested()) throw Interrupted();
    const std::string& source = side == GateSideName::baseline ? m_commands.baseline : m_commands.current;
    const Nanoseconds begin = m_clock.now();
    GateRun done{source, m_runner(side)};
    m_longest = std::max(m_longest, m_clock.now() - begin);
    if (m_stop.stop_requested()) throw Interrupted();
    return done;
  }

  /// Its result is dropped, but what cannot be compared is told before the pairs take their time.
  void warm_up(GateSideName side) {
    progress(fmt::format("warm-up, {}", gate_side_word(side)), 0);
    m_warm.push_back(run(side));
    if (m_warm.size() == 2) require_alike({&m_warm.front(), 1}, {&m_warm.back(), 1});
  }

  void run_pair(int pair, GateSideName first) {
    for (const GateSideName side : {first, other(first)}) {
      progress(fmt::format("pair {} of at most {}, {}", pair + 1, m_commands.most_pairs, gate_side_word(side)),
               static_cast<double>(pair) / m_commands.most_pairs);
      (side == GateSideName::baseline ? m_baseline : m_current).push_back(run(side));
    }
    if (pair == 0) {
      require_alike(m_baseline, m_current);
      m_nothing_shared = collect(m_baseline, m_current, m_options).series.empty();
    }
    const std::string cause = distrust({&m_baseline.back(), 1}, {&m_current.back(), 1}, m_options);
    if (cause.empty()) return;
    m_distrusted = m_repeated >= std::max(least_repetitions, m_commands.most_pairs / pairs_a_repetition) || !time_for_another();
    if (m_distrusted) return;
    ++m_repeated;
    m_repetition_cause = cause;
    m_baseline.pop_back();
    m_current.pop_back();
    run_pair(pair, first);
  }

  void require_alike(std::span<const GateRun> baseline, std::span<const GateRun> current) const {
    static_cast<void>(begin_result(baseline, current, m_options));
    static_cast<void>(collect(baseline, current, m_options));
  }

  [[nodiscard]] bool time_for_another() const { return to_seconds(m_clock.now() - m_begin + 2 * m_longest) <= m_commands.time_budget_seconds; }

  /// Going on would not help.
  [[nodiscard]] bool is_hopeless() const { return m_distrusted || m_nothing_shared; }

  void progress(const std::string& activity, double fraction) { m_events.progress({activity, fraction, -1}); }

  GateResult look(int pairs) {
    m_seen.push_back(pairs);
    GateResult result = begin_result(m_baseline, m_current, m_options);
    result.mode = "commands";
    result.unit = GateUnit::pair;
    result.baseline.sessions = result.current.sessions = 1;
    Collected collected = collect(m_baseline, m_current, m_options);
    std::vector<Compared> compared;
    for (const Series& series : collected.series) compared.push_back(compared_pairs(series));
    result.absent = std::move(collected.absent);
    std::vector<double> information;
    for (const int seen : m_seen) information.push_back(static_cast<double>(seen) / m_commands.most_pairs);
    const double level = look_levels(information, level_of(compared, family_alpha)).back();
    const Judgement judgement{m_options.min_effect, level, GateUnit::pair, distrust(m_baseline, m_current, m_options),
                              "one pair shows no scatter to compare with"};
    for (const Compared& each : compared) result.metrics.push_back(judge(each, judgement));
    conclude(result, m_options, {find_far_off(compared, judgement, result.findings)});
    return result;
  }

  const GateCommands& m_commands;
  const GateOptions& m_options;
  const GateRunner& m_runner;
  EventSink& m_events;
  const std::stop_token& m_stop;
  const Clock& m_clock;
  Nanoseconds m_begin;
  Nanoseconds m_longest = 0;
  std::vector<GateRun> m_warm, m_baseline, m_current;
  std::vector<int> m_seen;  ///< pairs at each look so far
  int m_repeated = 0;
  std::string m_repetition_cause;  ///< of the last one
  bool m_distrusted = false;       ///< too many runs were not trusted
  bool m_nothing_shared = false;   ///< no metric is on both sides of the first pair, so none is in all
};

}  // namespace
}  // namespace gate

std::string_view gate_side_word(GateSideName side) { return side == GateSideName::baseline ? "baseline" : "current"; }

void GateCommands::validate() const {
  for (const auto& [option, command] : {std::pair{"--baseline-command", &baseline}, std::pair{"--current-command", &current}})
    if (command->find_first_not_of(" \t\n") == std::string::npos)
      throw UsageError(fmt::format("{} is missing: runs of both commands alternate, give both", option));
  if (most_pairs < 2 || most_pairs > 1000) throw UsageError(fmt::format("--pairs: found {}, expected 2 to 1000", most_pairs));
  if (warm_ups < 0 || warm_ups > 10) throw UsageError(fmt::format("--warm-ups: found {}, expected 0 to 10", warm_ups));
  if (!(time_budget_seconds > 0)) throw UsageError("--time-budget: expected a time above 0");
  if (!(run_seconds > 0)) throw UsageError("--run-timeout: expected a time above 0");
}

GateResult compare_commands(const GateCommands& commands, const GateOptions& options, const GateRunner& runner, EventSink& events,
                            const std::stop_token& stop, const Clock& clock) {
  commands.validate();
  options.validate();
  return gate::Interleaving(commands, options, runner, events, stop, clock).compare();
}

}  // namespace dsanalyze
