#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "base/text/text.hpp"
#include "judge.hpp"
#include "runs.hpp"

namespace dsanalyze {
namespace gate {
namespace {

using SessionValues = std::map<std::size_t, std::vector<double>>;

SessionValues by_session(const std::vector<double>& values, const std::vector<std::size_t>& sessions) {
  SessionValues groups;
  for (std::size_t i = 0; i < values.size(); ++i) groups[sessions[i]].push_back(values[i]);
  return groups;
}

SessionRuns runs_by_session(const std::vector<double>& values, const std::vector<std::size_t>& sessions) {
  SessionRuns runs;
  for (auto& [session, of_session] : by_session(values, sessions)) runs.push_back(of_session);
  return runs;
}

std::set<std::size_t> shared_sessions(const Sessions& sessions) {
  const std::set<std::size_t> of_baseline(sessions.baseline.begin(), sessions.baseline.end());
  std::set<std::size_t> shared;
  for (const std::size_t session : sessions.current)
    if (of_baseline.contains(session)) shared.insert(session);
  return shared;
}

/// Runs that met the same machine at the same time: what a session did to both sides is taken off both.
Compared within_sessions(const Series& series, const Sessions& sessions, const std::set<std::size_t>& shared) {
  const SessionValues before = by_session(series.baseline, sessions.baseline);
  const SessionValues after = by_session(series.current, sessions.current);
  std::vector<Block> blocks;
  blocks.reserve(shared.size());
  Compared compared;
  compared.kind = series.kind;
  for (const std::size_t session : shared) {
    blocks.push_back({before.at(session), after.at(session)});
    const Block& block = blocks.back();
    const double centre = (trimmed_mean(block.baseline).value + trimmed_mean(block.current).value) / 2;
    compared.baseline += centre / static_cast<double>(shared.size());
    compared.observations_baseline += block.baseline.size();
    compared.observations_current += block.current.size();
  }
  compared.contrast = blocked(blocks);
  compared.current = compared.baseline + compared.contrast.estimate / 2;
  compared.baseline -= compared.contrast.estimate / 2;
  bound_below(compared, series, compared.observations_baseline, compared.observations_current);
  return compared;
}

std::size_t distinct(const std::vector<std::size_t>& sessions) { return std::set<std::size_t>(sessions.begin(), sessions.end()).size(); }

/// The degrees of freedom of the side that has fewer of them, of runs compared within shared sessions.
double degrees_within(const Sessions& sessions, const std::set<std::size_t>& shared) {
  std::vector<Block> blocks;
  for (const std::size_t session : shared) {
    const auto runs_of = [session](const std::vector<std::size_t>& of_side) {
      return std::vector<double>(static_cast<std::size_t>(std::ranges::count(of_side, session)));
    };
    blocks.push_back({runs_of(sessions.baseline), runs_of(sessions.current)});
  }
  return degrees_of_blocks(blocks);
}

/// Runs within shared sessions, unless few of them would throw away what many sessions know.
GateUnit unit_of(const Sessions& sessions, const std::set<std::size_t>& shared) {
  constexpr double enough_degrees = 2;
  if (shared.empty()) return GateUnit::session;
  const double within = degrees_within(sessions, shared);
  const double across = static_cast<double>(distinct(sessions.baseline)) - 1;
  return within >= enough_degrees || within >= across ? GateUnit::run : GateUnit::session;
}

/// Of the runs that are compared: what is left out spoils nothing.
std::string distrust_of_used(std::span<const GateRun> runs, const std::vector<std::size_t>& sessions, const std::set<std::size_t>& used,
                             const GateOptions& options) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!used.contains(sessions[i])) continue;
    if (std::string cause = distrust(runs.subspan(i, 1), {}, options); !cause.empty()) return cause;
  }
  return "";
}

Compared across_sessions(const Series& series, const Sessions& sessions) {
  const SessionRuns baseline = runs_by_session(series.baseline, sessions.baseline);
  const SessionRuns current = runs_by_session(series.current, sessions.current);
  const auto mean_of_means = [](const SessionRuns& runs) {
    double sum = 0;
    for (const std::vector<double>& session : runs) sum += mean(session);
    return sum / static_cast<double>(runs.size());
  };
  Compared compared{series.kind,     mean_of_means(baseline), mean_of_means(current),
                    baseline.size(), current.size(),          between_sessions(baseline, current)};
  bound_below(compared, series, series.baseline.size(), series.current.size());
  return compared;
}

void require_different(std::span<const GateRun> baseline, std::span<const GateRun> current) {
  for (const GateRun& one : baseline)
    for (const GateRun& other : current) {
      if (one.content == 0 || one.content != other.content) continue;
      throw UsageError(
          one.source == other.source
              ? fmt::format("{} is on both sides: a result compared with itself says nothing", printable(one.source))
              : fmt::format("{} and {} are the same result: compared with itself it says nothing", printable(one.source), printable(other.source)));
    }
}

std::string no_scatter_reason(const Sessions& sessions, GateUnit unit) {
  if (unit == GateUnit::run) return "one side has too few runs to tell a change from other work that met a run";
  if (!sessions.times_known) return "when the runs began is not known, so that a machine's drift between the sides cannot be told from a change";
  if (distinct(sessions.baseline) > 1)
    return "the current side is one run, too few to tell a change from other work that met it; make three or more in its session";
  return "the baseline is of one session, which cannot know how far this machine drifts from session to session";
}

void find_about_sessions(const Sessions& sessions, GateUnit unit, std::size_t left_out, std::vector<Finding>& findings) {
  if (!sessions.times_known)
    findings.push_back({"start-not-known", Finding::Severity::warning,
                        "results of older versions do not say when they began: profile again, or alternate runs with --baseline-command and "
                        "--current-command."});
  if (unit == GateUnit::session)
    findings.push_back(
        {"other-session", Finding::Severity::warning,
         "baseline and current ran at different times, between which a machine drifts (CPU by some percent, disks by far more), so a session "
         "counts as one observation. Accept baselines on several days, or alternate runs with --baseline-command and --current-command."});
  if (left_out > 0)
    findings.push_back(
        {"runs-left-out", Finding::Severity::info,
         fmt::format("{} of sessions in which only one side ran: what ran together is compared.", gate_count_text(GateUnit::run, left_out))});
  if (unit == GateUnit::run && sessions.one_after_the_other)
    findings.push_back({"one-after-the-other", Finding::Severity::warning,
                        "all runs of one side began before those of the other did: what the machine drifted meanwhile looks like a change. "
                        "Alternating runs cancel it: "
                        "--baseline-command and --current-command."});
}

}  // namespace
}  // namespace gate

GateResult compare_results(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options) {
  using namespace gate;
  options.validate();
  if (baseline.empty() || current.empty()) throw UsageError("a comparison needs at least one result a side");
  require_different(baseline, current);
  GateResult result = begin_result(baseline, current, options);
  result.mode = "files";

  const Sessions sessions = sessions_of(baseline, current);
  const auto shared = sessions.times_known ? shared_sessions(sessions) : std::set<std::size_t>{};
  result.unit = unit_of(sessions, shared);
  result.baseline.sessions = sessions.times_known ? distinct(sessions.baseline) : 0;
  result.current.sessions = sessions.times_known ? distinct(sessions.current) : 0;

  Collected collected = collect(baseline, current, options);
  std::vector<Compared> compared;
  for (const Series& series : collected.series)
    compared.push_back(result.unit == GateUnit::run ? within_sessions(series, sessions, shared) : across_sessions(series, sessions));
  result.absent = std::move(collected.absent);

  std::string distrusted = distrust(baseline, current, options);
  if (result.unit == GateUnit::run) {
    distrusted = distrust_of_used(baseline, sessions.baseline, shared, options);
    if (distrusted.empty()) distrusted = distrust_of_used(current, sessions.current, shared, options);
  }
  const Judgement judgement{options.min_effect, level_of(compared, family_alpha), result.unit, distrusted, no_scatter_reason(sessions, result.unit)};
  for (const Compared& each : compared) result.metrics.push_back(judge(each, judgement));
  const std::string far_off = find_far_off(compared, judgement, result.findings);
  const std::size_t used = compared.empty() ? 0 : compared.front().observations_baseline + compared.front().observations_current;
  find_about_sessions(sessions, result.unit, result.unit == GateUnit::run && used > 0 ? baseline.size() + current.size() - used : 0, result.findings);
  conclude(result, options, {far_off, result.unit == GateUnit::run && sessions.one_after_the_other});
  return result;
}

GateResult result_without_baseline(const std::vector<std::string>& places, std::span<const GateRun> current, const GateOptions& options) {
  using namespace gate;
  options.validate();
  GateResult result = begin_result(current, current, options);
  result.mode = "files";
  result.baseline = GateSide{};
  result.baseline.sources = places;
  result.reason = "there is no baseline yet";
  std::string command = "dsanalyze gate accept";
  constexpr std::size_t named = 3;
  for (std::size_t i = 0; i < std::min(current.size(), named); ++i) command += " " + shell_word(current[i].source);
  if (current.size() > named) command += " ...";
  result.findings.push_back(
      {"no-baseline", Finding::Severity::warning,
       fmt::format("{} holds no results, so this is neither a pass nor a failure (exit code 4). If these results are as they should be, make them "
                   "the baseline: {} --baseline {}; and keep that folder with the code.",
                   places.front(), command, shell_word(places.front()))});
  return result;
}

void GateOptions::validate() const {
  if (!(min_effect > 0 && min_effect < 1))
    throw UsageError(fmt::format("--min-effect: found {}, expected a share above 0 and below 100%", min_effect));
  static_cast<void>(gate::chosen_metrics(metrics));
}

}  // namespace dsanalyze
