#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

using Severity = Finding::Severity;

constexpr std::uint64_t wanted_kept_batches = 16;

constexpr double wanted_rate_error = 0.02;  ///< of a rate: a phase goes on until it is known so well
constexpr double tolerated_change = 0.1;    ///< of a rate: a judgement, below which no verdict of ours turns

/// The median step of the phase whose steps take longest.
double longest_step(const AttachedTraining& training) {
  double longest = 0;
  for (const auto& [phase, measured] : training.phases)
    for (const auto& [rank, windows] : measured.by_rank)
      for (const StepWindow& window : windows)
        if (!window.is_counted()) longest = std::max(longest, training.device.cuda ? mean_step_seconds(window) : median_step_seconds(window));
  return longest;
}

/// Seconds in which the shortest phase, which has a tenth of them, has time for six of these steps: three that are measured, and as many before.
double wanted_budget(const AttachedTraining& training) {
  constexpr double steps = 60;
  return std::ceil(steps * longest_step(training));
}

/// Why P is not known though the loader was drained; empty where it is known, or was not drained.
std::string missing_prep(const AttachedTraining& training, const ProfileResult& result) {
  if (result.run("prep") != nullptr || training.drains.empty()) return "";
  const DrainMeasurement& own = training.drains.front();
  if (std::ranges::any_of(own.by_rank, [](const auto& each) { return !each.second.error.empty(); }))
    return "P was not measured, as draining the loader failed: see the finding drain-failed.";
  std::size_t fewest = SIZE_MAX;
  double seconds = 0;
  for (const auto& [rank, drained] : own.by_rank) {
    fewest = std::min(fewest, drained.delivered.size());
    if (!drained.delivered.empty()) seconds = std::max(seconds, to_seconds(drained.delivered.back() - drained.begin));
  }
  if (own.by_rank.empty()) return "";
  return fmt::format(
      "P was not measured: drained for {}, {} worker{} delivered {} batch{}, and two of each are the least. Pass a longer --time-budget.",
      format_seconds(seconds), own.workers, own.workers == 1 ? "" : "s", fewest, fewest == 1 ? "" : "es");
}

/// Of phases that were not reached.
void find_missing_phases(const LaunchedTraining& launched, Conductor::Phases phases, ProfileResult& result) {
  std::vector<std::string> missing;
  const std::string no_prep = missing_prep(launched.training, result);
  if (!no_prep.empty()) {
    result.trusted = false;
    result.findings.push_back({"phases-missing", Severity::warning, no_prep});
  }
  const bool is_alone = !result.loader || result.loader->workers == 0 || launched.training.stream_goes_on();  // no workers beside the steps
  for (const std::string name : {"full", "synthetic", "prep", "cached", "busy"}) {
    if (phases == Conductor::Phases::full_and_prep && (name == "synthetic" || name == "cached" || name == "busy")) continue;
    if (name == "busy" && is_alone) continue;
    if (launched.training.stream_goes_on() && name == "cached")
      result.findings.push_back({"storage-not-separable", Severity::info,
                                 "what is watched cannot be begun a second time, so the training was not measured with its data in memory: whether "
                                 "its steps wait for storage or for preparing is not separable."});
    else if (result.run(name) == nullptr && (no_prep.empty() || name != "prep"))
      missing.emplace_back(name);
  }
  if (!missing.empty()) {
    result.trusted = false;
    const std::string names = fmt::format("{}", fmt::join(missing, ", "));
    result.findings.push_back(
        {"phases-missing", Severity::warning,
         launched.training.out_of_time
             ? fmt::format("a step takes {}, so --time-budget left no time for these phases: {}. Pass a --time-budget of {:.0f} s or more.",
                           format_seconds(longest_step(launched.training)), names, wanted_budget(launched.training))
         : !launched.failure.empty()
             ? fmt::format("these phases were not measured, as the profile was cut short before: {}.", names)
             : fmt::format("the training ended before these phases were measured: {}. Let it train longer (more epochs, more samples), or "
                           "shorten the phases with --time-budget.",
                           names)});
  }
}

/// What loads a cache, or compiles, in its first seconds is not the training that goes on for days.
void find_changing_rates(const AttachedTraining& training, ProfileResult& result) {
  constexpr std::size_t least_windows = 8;
  for (const auto& [phase, measured] : training.phases) {
    const std::vector<Stretch> all = stretches_of(measured);
    if (measured.whole_run || all.size() < least_windows) continue;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    const Estimate first = estimate_of_ratio({all.begin(), middle});
    const Estimate second = estimate_of_ratio({middle, all.end()});
    const double change = std::abs(second.value - first.value);
    if (change <= (first.ci95.high - first.ci95.low) / 2 + (second.ci95.high - second.ci95.low) / 2) continue;
    if (change <= tolerated_change * first.value) continue;
    result.trusted = false;
    result.findings.push_back({"rate-changed", Severity::warning,
                               fmt::format("in the phase {} the rate went from {} to {} samples/s while it was measured: the training had not "
                                           "settled, or other programs came or went. Profile again, with a longer --time-budget.",
                                           enum_name(phase), format_number(first.value), format_number(second.value))});
  }
}

/// The rate of those windows alone in which nothing but steps happened, and whose steps were only counted, or clocked.
Estimate rate_of_steps(const PhaseMeasurement& full, bool counted) {
  PhaseMeasurement steps = full;
  for (auto& [rank, windows] : steps.by_rank)
    std::erase_if(windows, [counted](const StepWindow& window) {
      const bool more = window.between > 0 || std::ranges::any_of(window.validation, [](double seconds) { return seconds > 0; });
      return window.is_counted() != counted || more;
    });
  return estimate_of_ratio(stretches_of(steps));
}

/// Windows whose steps were only counted took turns with those in which clocks were read: what differs is the hook's own.
void find_clocks(const AttachedTraining& training, ProfileResult& result) {
  constexpr std::size_t least_windows = 3;  // of two, Student's factor is 12.7
  const auto full = training.phases.find(AttachPhase::full);
  if (full == training.phases.end()) return;
  const Estimate clocked = rate_of_steps(full->second, false);
  const Estimate counted = rate_of_steps(full->second, true);
  if (std::min(clocked.windows, counted.windows) < least_windows || clocked.ci95.overlaps(counted.ci95)) return;
  if (std::abs(counted.value - clocked.value) <= wanted_rate_error * clocked.value) return;
  result.trusted = false;
  result.findings.push_back(
      {"clocks-change-rate", Severity::warning,
       fmt::format("steps went at {} samples/s where the hook read clocks in them, and at {} where it only counted them: it changes "
                   "what it measures, so the verdict is inconclusive. --passive does less in a step.",
                   format_number(clocked.value), format_number(counted.value))});
}

/// The kernel reads ahead, and files that are mapped into memory are not counted as read.
std::string part_from_storage(const RunRecord& run) {
  if (*run.storage_bytes > run.requested_bytes)
    return fmt::format("more than the {} that it read by calls: files that it maps into memory and what the kernel reads ahead come on top",
                       format_bytes(run.requested_bytes));
  return fmt::format("{:.1f} % of what it read", 100 * static_cast<double>(*run.storage_bytes) / static_cast<double>(run.requested_bytes));
}

void find_storage_reads(ProfileResult& result) {
  for (const RunRecord& run : result.runs) {
    if ((run.name != "prep" && run.name != "cached") || !run.storage_bytes || run.requested_bytes == 0) continue;
    const double fraction = static_cast<double>(*run.storage_bytes) / static_cast<double>(run.requested_bytes);
    // Of a training that reads next to nothing, a few pages are a large part; other programs' reads may make everything wait.
    if (fraction <= tolerated_fraction || *run.storage_bytes < negligible_bytes) continue;
    if (run.storage_wait_fraction.value_or(1) <= tolerated_wait) {
      result.findings.push_back({"cached-run-read-storage", Severity::info,
                                 fmt::format("the run {} read {} from storage ({}): not all of the subset stayed in memory. Processes "
                                             "waited for storage in {:.1f} % of its time, so its rate is at most that much too low.",
                                             run.name, format_bytes(*run.storage_bytes), part_from_storage(run), *run.storage_wait_fraction * 100)});
      continue;
    }
    result.trusted = false;
    result.findings.push_back({"cached-run-read-storage", Severity::warning,
                               fmt::format("the run {} read {} from storage ({}): its rate is a lower bound. The subset did not stay in "
                                           "memory (a stream may read other data at each start); free some, or pass a smaller --subset.",
                                           run.name, format_bytes(*run.storage_bytes), part_from_storage(run))});
  }
}

void find_few_batches(const PhaseMeasurement& synthetic, ProfileResult& result) {
  const std::uint64_t kept = synthetic.kept_batches;
  if (kept == 0 || kept >= wanted_kept_batches) return;
  result.findings.push_back(
      {"few-kept-batches", Severity::info,
       fmt::format("G was measured with {} batch{} that {} handed out in turn, not {}: more did not fit the memory set aside, or the epoch had no "
                   "more whole ones.",
                   kept, kept == 1 ? "" : "es", kept == 1 ? "was" : "were", wanted_kept_batches)});
}

void find_odd_steps(const LaunchedTraining& launched, ProfileResult& result) {
  std::uint64_t steps = 0;
  std::uint64_t skipped = 0;
  const auto phase = launched.training.phases.find(AttachPhase::synthetic);
  if (phase == launched.training.phases.end()) return;
  for (const auto& [rank, windows] : phase->second.by_rank) {
    for (const StepWindow& window : windows) {
      steps += window.optimizer_steps;
      skipped += window.skipped;
    }
  }
  if (static_cast<double>(skipped) > tolerated_fraction * static_cast<double>(steps)) {
    result.trusted = false;
    result.findings.push_back(
        {"steps-skipped", Severity::warning,
         fmt::format("while the same batches were handed out again, {} of {} optimizer steps were skipped: G is not to be trusted.", skipped,
                     steps)});
  }
  find_few_batches(phase->second, result);
}

/// A training cannot take more than its loader prepares.
void find_prep_below_found(ProfileResult& result) {
  const RunRecord* const full = result.run("full");
  if (full == nullptr || !result.prep) return;
  if (result.prep->ci95_samples_per_s.high >= full->ci95_samples_per_s.low) return;
  result.trusted = false;
  result.findings.push_back(
      {"prep-below-found", Severity::warning,
       fmt::format("P of {} samples/s is a lower bound: the training as found took {} samples/s. The machine was busier while the loader was "
                   "drained, or the subset's samples take longer than others. Profile again.",
                   format_number(result.prep->samples_per_s), format_number(full->samples_per_s))});
}

/// P and the training as found are of one machine only where other programs left both as much of it.
void find_prep_beside_others(ProfileResult& result) {
  constexpr double alike = 0.1;  // of the cores
  const RunRecord* const full = result.run("full");
  const RunRecord* const prep = result.run("prep");
  if (full == nullptr || prep == nullptr || !full->others || !prep->others) return;
  const double as_found = full->others->cpu_fraction;
  const double drained = prep->others->cpu_fraction;
  if (std::abs(as_found - drained) <= alike || !others_leave_no_core(as_found > drained ? *full : *prep, result.host.cores)) return;
  result.findings.push_back(
      {beside_others_code, Severity::warning,
       fmt::format(
           "other programs took {} of the cores while prep was measured, and {} while the training ran as found: P is of another machine than "
           "that, so the bottleneck is inconclusive. Profile again while they rest.",
           format_share(drained), format_share(as_found))});
}

}  // namespace

void find_attached_problems(const LaunchedTraining& launched, const LaunchSettings& settings, ProfileResult& result) {
  const AttachMode mode = settings.mode;
  if (mode == AttachMode::phases) find_missing_phases(launched, settings.plan.phases, result);
  if (!launched.failure.empty() && mode == AttachMode::phases) {
    result.trusted = false;
    const bool ended = launched.exit_status || launched.signal;
    result.findings.insert(result.findings.begin(), {ended ? "training-failed" : "profile-cut-short", Severity::error, printable(launched.failure)});
  } else if (!launched.failure.empty()) {
    result.findings.push_back({"passive-cut-short", Severity::warning, printable(launched.failure)});
  }
  find_storage_reads(result);
  find_odd_steps(launched, result);
  constexpr double most_unexplained = 0.01;
  if (result.waits && std::abs(result.waits->unexplained.fraction) > most_unexplained)
    result.findings.push_back(
        {"step-time-unexplained", Severity::warning,
         fmt::format("{:.1f} % of the time of a step is in none of its measured parts.", result.waits->unexplained.fraction * 100)});
  for (const DrainMeasurement& drain : launched.training.drains)
    for (const auto& [rank, drained] : drain.by_rank)
      if (!drained.error.empty())
        result.findings.push_back(
            {"drain-failed", Severity::warning,
             fmt::format("draining the loader with {} worker{} failed after {} batch{}: {}", drain.workers, drain.workers == 1 ? "" : "s",
                         drained.delivered.size(), drained.delivered.size() == 1 ? "" : "es", printable(drained.error))});
  find_changing_rates(launched.training, result);
  find_clocks(launched.training, result);
  find_prep_beside_others(result);
  find_prep_below_found(result);
  if (const RankCount ranks = launched.training.rank_count(); mode == AttachMode::passive && ranks.elsewhere() > 0)
    result.findings.push_back(
        {"ranks-elsewhere", Severity::info, fmt::format("the training has {}: these figures are of the ranks here alone.", text_of(ranks))});
  if (launched.training.several_trainings) {
    result.trusted = false;
    result.findings.push_back({"several-trainings", Severity::warning,
                               "the command ran more than one training, and these figures are of all of them together. Profile each by itself."});
  }
  tell_sandbox(launched, settings, result);
  for (const NoteMessage& note : launched.training.notes)
    result.findings.push_back({note.code, note.code == "workers-repeat" ? Severity::warning : Severity::info, printable(note.text)});
}

}  // namespace dsanalyze
