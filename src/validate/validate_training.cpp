#include "validate_training.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>

#include "attach/command_paths.hpp"
#include "base/error.hpp"
#include "base/process/spawn.hpp"
#include "base/statistics.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "profile/attached/attached_profile.hpp"
#include "training_limits.hpp"

namespace dsanalyze {
namespace {

constexpr double default_seconds = 180;
constexpr double least_measured_seconds = 8;
constexpr double most_measured_seconds = 25;
constexpr int most_rounds = 3;
constexpr double warm_up_seconds = 2;
constexpr double most_median_error = 0.03;
constexpr double most_worst_error = 0.08;
constexpr double widest_interval = 0.10;
constexpr double most_drift = 0.25;      ///< of the machine since the profile: beyond it is another machine
constexpr double least_waiting = 0.028;  ///< of a step

/// While it lives, this thread and what it starts may use so many of the cores that it could use before.
class FewerCores {
 public:
  FewerCores(const HostFacts& host, int cores) {
    ::sched_getaffinity(0, sizeof m_before, &m_before);
    cpu_set_t some;
    CPU_ZERO(&some);
    for (int at = 0; at < cores && at < static_cast<int>(host.cpus_allowed.size()); ++at)
      CPU_SET(host.cpus_allowed[static_cast<std::size_t>(at)], &some);
    if (::sched_setaffinity(0, sizeof some, &some) != 0) throw_errno("cannot restrict the training to fewer cores", "sched_setaffinity", errno);
  }
  ~FewerCores() { ::sched_setaffinity(0, sizeof m_before, &m_before); }
  FewerCores(const FewerCores&) = delete;
  FewerCores& operator=(const FewerCores&) = delete;

 private:
  cpu_set_t m_before{};
};

double seconds_to_start(const ProfileResult& profile) {
  constexpr double unknown = 5;
  return (profile.launch && profile.launch->first_step_seconds > 0 ? profile.launch->first_step_seconds : unknown) + warm_up_seconds;
}

/// What one run measured.
struct Run {
  double samples_per_s = 0;
  Interval ci95;
  double waiting = 0;  ///< fraction of a step
  std::uint64_t windows = 0;
};

void require_same_training(const ProfileResult& profile, const ProfileResult& run, const WhatIfAnswer& answer) {
  const LoaderRecord& then = *profile.loader;
  const LoaderRecord& now = *run.loader;
  if (then.dataset_class != now.dataset_class || then.samples != now.samples)
    throw Error(fmt::format("the training reads another dataset than the profile's ({} samples of {}, in the profile {} of {}): profile it again",
                            now.samples ? format_number(static_cast<double>(*now.samples)) : "an unknown number of", printable(now.dataset_class),
                            then.samples ? format_number(static_cast<double>(*then.samples)) : "an unknown number", printable(then.dataset_class)));
  const int wanted = answer.change.workers.value_or(then.workers);
  if (now.workers != wanted)
    throw Error(
        fmt::format("the training's loader ran with {} workers instead of {}: the script makes it in another place than when it was profiled "
                    "({}:{}), or sets the "
                    "number later",
                    now.workers, wanted, printable(then.file), then.line));
  const double had = run.launch->cores.value_or(run.host.cores);
  if (answer.change.cores && had != std::min(*answer.change.cores, run.host.cores))  // A container may admit less than whole cores.
    throw Error(
        fmt::format("the training had {} cores instead of {}: it chooses them itself", format_number(had), format_number(*answer.change.cores)));
}

Run run_once(const TrainingValidationPlan& plan, const ProfileResult& profile, const TrainingRuns& runs, const WhatIfAnswer& answer,
             const std::stop_token& stop, Timing timing) {
  const auto folder = runs.folder();
  LaunchSettings settings = runs.settings;
  settings.folder = *folder;
  settings.plan.phases = Conductor::Phases::full;
  settings.plan.seconds = plan.measured_seconds;
  if (answer.change.workers) settings.workers = WorkersChange{*answer.change.workers, profile.loader->file, profile.loader->line};
  settings.plan.settling_seconds = settling_seconds(answer.change);
  const double start_seconds = profile.launch ? profile.launch->first_step_seconds : 0;
  const TrainingLimits limits(profile, answer.change, start_seconds, stop, timing);
  std::optional<FewerCores> fewer;
  if (answer.change.cores) fewer.emplace(runs.host, static_cast<int>(*answer.change.cores));
  const LaunchedTraining launched = launch_training(settings, null_events(), stop, timing);
  if (!launched.failure.empty() && answer.change.cache_bytes)
    throw Error(fmt::format("{} (its memory was limited for this run: one that suddenly takes more is ended by the kernel)", launched.failure));
  if (!launched.failure.empty()) throw Error(launched.failure);
  if (!limits.held_for(plan.measured_seconds / 2))
    throw Error("the memory for the page cache was not limited in time: the training started sooner than when it was profiled; profile it again");
  const ProfileResult measured = attached_profile(launched, settings, runs.host);
  require_same_training(profile, measured, answer);
  const RunRecord* const full = measured.run("full");
  if (full == nullptr) return {};
  return {full->samples_per_s, full->ci95_samples_per_s, measured.waits ? measured.waits->data.fraction : 0, full->windows};
}

/// Predictions are compared at the speed that the machine has now: `speed` over the profile's. Nothing: those runs are of the training as found,
/// which say what the speed is.
void judge_training(const TrainingModel& model, WhatIfAnswer& answer, const std::vector<Run>& runs, std::optional<double> speed) {
  std::vector<double> rates;
  std::vector<Interval> intervals;
  std::vector<double> waiting;
  WhatIfAnswer::Measured measured;
  for (const Run& run : runs) {
    if (run.samples_per_s <= 0) continue;
    rates.push_back(run.samples_per_s);
    intervals.push_back(run.ci95);
    waiting.push_back(run.waiting);
    measured.windows += run.windows;
  }
  if (rates.empty()) {
    answer.not_measured = "its runs gave no rate in the time: pass a longer --time-budget";
    return;
  }
  const RepeatedRate rate = repeated_rate(rates, intervals);
  measured.samples_per_s = rate.samples_per_s;
  measured.ci95_samples_per_s = rate.ci95;
  measured.speed = speed.value_or(machine_speed(model, rate.samples_per_s));
  measured.error_as_profiled = answer.samples_per_s / rate.samples_per_s - 1;
  measured.error = measured.speed * answer.samples_per_s / rate.samples_per_s - 1;
  measured.covered = Interval{measured.speed * answer.ci95_samples_per_s.low, measured.speed * answer.ci95_samples_per_s.high}.overlaps(rate.ci95);
  const Path::Handover& handover = model.path.from_workers;
  const double delivery = (handover.cpu_seconds + handover.other_seconds) * rate.samples_per_s / model.step_samples;
  const TrainingVerdict verdict = training_verdict(median(waiting), delivery);
  measured.bottleneck = verdict.bottleneck;
  // A batch is waited for, whether prep or storage is late with it; training and prep that take turns are not told apart by waiting.
  const bool not_told = answer.change.workers.value_or(model.workers) == 0;
  const bool alike = (verdict.bottleneck == "gpu") == (answer.bottleneck == "gpu");
  measured.verdict_right = alike || answer.too_close || verdict.too_close || not_told;
  answer.measured = measured;
}

}  // namespace

std::vector<Finding> check_same_command(const ProfileResult& profile, const std::filesystem::path& working_directory) {
  if (!profile.launch)
    throw UsageError(
        "the profile does not say which files its command was made of (an older dsanalyze made it, so whether it is still the same is not known): "
        "profile the command again");
  const LaunchRecord& launch = *profile.launch;
  if (std::error_code error; !std::filesystem::is_directory(launch.working_directory, error))
    throw UsageError(
        fmt::format("the profile's command is gone: there is no folder {}, in which it was profiled", printable(launch.working_directory)));
  if (launch.working_directory != working_directory.native())
    throw UsageError(fmt::format("the command was profiled in {}, and this is {}: run dsanalyze there", printable(launch.working_directory),
                                 printable(working_directory.native())));
  if (program_path(profile.command.front(), working_directory).empty())
    throw UsageError(fmt::format("the profile's command is gone: there is no program {}", printable(shell_word(profile.command.front()))));
  std::vector<std::string> other_data;
  for (const CommandPathRecord& then : launch.paths) {
    const auto now = path_record(then.path, then.kind);
    const bool code = then.kind == CommandPathRecord::Kind::code;
    if (!now && code) throw UsageError(fmt::format("the profile's command is gone: there is no {}", printable(then.path)));
    if (now && now->digest == then.digest) continue;
    if (code)
      throw UsageError(fmt::format("{} was changed since the profile, which is of another script than this would run: profile the command again",
                                   printable(then.path)));
    other_data.push_back(printable(then.path));
  }
  if (other_data.empty()) return {};
  return {{"data-changed", Finding::Severity::warning,
           fmt::format(
               "not what it was when the command was profiled: {}. If the training reads other data now, the predictions are not for it; profile it "
               "again then.",
               fmt::join(other_data, ", "))}};
}

std::string cannot_run(const ProfileResult& profile, const HostFacts& host, const WhatIfAnswer& answer) {
  const WhatIfChange& change = answer.change;
  if (change.accelerator_speed && *change.accelerator_speed != 1) return "the accelerators are as fast as they are: no other speed can be run";
  if (change.workers && profile.loader->file.empty()) return "where the script makes its loader is not known, so its num_workers cannot be set";
  if (change.cores && *change.cores != std::floor(*change.cores)) return "only whole cores can be run";
  if (change.cores && *change.cores > static_cast<double>(host.cpus_allowed.size()))
    return fmt::format("this process may use {} cores", host.cpus_allowed.size());
  return limits_refused(profile, change);
}

TrainingValidationPlan plan_training_validation(const ProfileResult& profile, const HostFacts& host, WhatIfResult& result, double seconds) {
  std::vector<WhatIfAnswer>& answers = result.answers;
  TrainingValidationPlan plan;
  std::vector<std::size_t> runnable;
  for (std::size_t at = 0; at < answers.size(); ++at) {
    answers[at].not_measured = cannot_run(profile, host, answers[at]);
    if (answers[at].not_measured.empty()) runnable.push_back(at);
  }
  // Without a change that can be run there is nothing to prove.
  if (runnable.size() < 2 && answers.size() > 1) {
    answers.front().not_measured = "none of the changes can be run here";
    return plan;
  }
  const double budget = seconds > 0 ? seconds : default_seconds;
  double before = 0;  // of the run that takes the longest to fill its page cache
  for (const std::size_t at : runnable) before = std::max(before, fill_seconds(profile, answers[at].change) + settling_seconds(answers[at].change));
  const double start = seconds_to_start(profile) + before;
  const double least = start + least_measured_seconds;
  const auto fitting = std::max<std::size_t>(static_cast<std::size_t>(budget / least), std::min<std::size_t>(runnable.size(), 2));
  const std::size_t taken = std::min(runnable.size(), fitting);
  plan.order.assign(runnable.begin(), runnable.begin() + static_cast<std::ptrdiff_t>(taken));
  plan.left_out = runnable.size() - taken;
  for (std::size_t at = taken; at < runnable.size(); ++at)
    answers[runnable[at]].not_measured = fmt::format("it does not fit into {}: pass --time-budget {:.0f}s", format_seconds(budget),
                                                     std::ceil(static_cast<double>(runnable.size()) * least));
  const auto count = static_cast<double>(plan.order.size());
  plan.rounds = std::clamp(static_cast<int>(budget / (count * least)), 1, seconds > 0 ? std::numeric_limits<int>::max() : most_rounds);
  plan.measured_seconds = std::max(budget / (count * plan.rounds) - start, 1.0);
  if (seconds <= 0) plan.measured_seconds = std::min(plan.measured_seconds, most_measured_seconds);
  plan.seconds = count * plan.rounds * (start + plan.measured_seconds);
  return plan;
}

std::string plan_text(const TrainingValidationPlan& plan, std::size_t answers) {
  if (plan.order.empty()) return "validation: nothing of this can be run here";
  std::string text = fmt::format("validation: {} of {} configurations run here, {} each, in turn, {} at most in all", plan.order.size(), answers,
                                 plan.rounds == 1 ? "once" : fmt::format("{} times", plan.rounds), format_seconds(plan.seconds));
  if (plan.left_out > 0) text += fmt::format("; {} more do not fit (--time-budget)", plan.left_out);
  return text;
}

TrainingVerdict training_verdict(double waiting_fraction, double delivery_fraction) {
  const double lost = waiting_fraction - delivery_fraction;
  return {lost > least_waiting ? "cpu" : "gpu", lost >= least_waiting / 2 && lost <= 2 * least_waiting};
}

double machine_speed(const TrainingModel& model, double found_now) { return steady_of(model) ? 1 : found_now / model.found; }

RepeatedRate repeated_rate(const std::vector<double>& rates, const std::vector<Interval>& intervals) {
  const auto count = static_cast<double>(rates.size());
  double mean = 0;
  double within = 0;
  for (std::size_t at = 0; at < rates.size(); ++at) {
    mean += rates[at] / count;
    within += (intervals[at].high - intervals[at].low) / 2 / count;
  }
  double squares = 0;
  for (const double rate : rates) squares += (rate - mean) * (rate - mean);
  const double between = rates.size() > 1 ? normal_quantile(0.975) * std::sqrt(squares / (count - 1) / count) : 0;
  const double half = std::hypot(within / std::sqrt(count), between);
  return {mean, {mean - half, mean + half}};
}

void validate_training(const TrainingValidationPlan& plan, const ProfileResult& profile, const TrainingRuns& runs, WhatIfResult& result,
                       EventSink& events, const std::stop_token& stop, Timing timing) {
  std::vector<std::vector<Run>> measured(result.answers.size());
  const double each = plan.order.empty() ? 0 : plan.seconds / (static_cast<double>(plan.order.size()) * plan.rounds);
  std::vector<std::string> failures(result.answers.size());
  double done = 0;
  for (int round = 0; round < plan.rounds; ++round) {
    for (const std::size_t at : plan.order) {
      events.progress({fmt::format("validation, run {} of {}", static_cast<int>(std::lround(done / each)) + 1, plan.rounds * plan.order.size()),
                       done / plan.seconds, plan.seconds - done});
      done += each;
      if (!failures[at].empty()) continue;
      try {
        measured[at].push_back(run_once(plan, profile, runs, result.answers[at], stop, timing));
      } catch (const Error& error) {
        // Without the training as found there is nothing to compare with; another's failure costs its own answer alone.
        if (error.kind() != ErrorKind::failed || at == 0) throw;
        failures[at] = error.what();
      }
    }
  }
  const TrainingModel model = training_model(profile);
  std::optional<double> speed;
  for (const std::size_t at : plan.order) {
    WhatIfAnswer& answer = result.answers[at];
    if (failures[at].empty()) {
      judge_training(model, answer, measured[at], speed);
      if (at == 0 && answer.measured) speed = answer.measured->speed;
    } else
      answer.not_measured = "its run failed: " + failures[at];
  }
  result.validation = conclude_training_validation(result.answers);
}

WhatIfValidation conclude_training_validation(const std::vector<WhatIfAnswer>& answers) {
  WhatIfValidation validation;
  std::vector<double> errors;
  std::uint64_t covered = 0;
  double as_profiled = 0;
  bool wide = false;
  bool beyond = false;      ///< past the bounds, by more than the measurement's own interval
  bool apart = false;       ///< of these, intervals that do not overlap
  bool each_apart = false;  ///< past what is asked of the median, and the intervals do not overlap
  double widest = 0;
  for (const WhatIfAnswer& answer : answers) {
    if (!answer.measured) {
      ++validation.not_measured;
      continue;
    }
    const WhatIfAnswer::Measured& measured = *answer.measured;
    ++validation.measured;
    const double error = std::abs(measured.error);
    const double own = half_width(measured.ci95_samples_per_s, measured.samples_per_s);
    errors.push_back(error);
    as_profiled = std::max(as_profiled, std::abs(measured.error_as_profiled));
    validation.slowest = validation.fastest = measured.speed;
    widest = std::max(widest, own);
    wide |= own > widest_interval;
    const bool past = error > std::max(most_worst_error, own);
    beyond |= past;
    apart |= past && !measured.covered;
    each_apart |= error > std::max(most_median_error, own) && !measured.covered;
    covered += measured.covered ? 1 : 0;
    validation.verdicts_right += measured.verdict_right ? 1 : 0;
  }
  if (errors.empty()) {
    validation.outcome = "undecided";
    validation.reason = "this machine can run none of the changes";
    return validation;
  }
  const bool any_change =
      answers.size() == 1 || std::any_of(answers.begin() + 1, answers.end(), [](const WhatIfAnswer& each) { return each.measured; });
  validation.median_error = median(errors);
  validation.worst_error = std::ranges::max(errors);
  validation.worst_error_as_profiled = as_profiled;
  validation.covered_share = static_cast<double>(covered) / static_cast<double>(errors.size());
  const bool verdicts = validation.verdicts_right == validation.measured;
  const bool median_right = validation.median_error <= std::max(most_median_error, widest);
  const std::string text = fmt::format("errors of {:.1f} % (median) and {:.1f} % (worst) over {} configurations", 100 * validation.median_error,
                                       100 * validation.worst_error, errors.size());
  const bool drifted = std::abs(validation.slowest - 1) > most_drift;
  if (!any_change) {
    validation.outcome = "undecided";
    validation.reason = "no run with a change gave a rate";
  } else if (drifted) {
    validation.outcome = "undecided";
    validation.reason = fmt::format("{}; but the training as found ran at {:.0f} % of the rate that it was profiled with: profile it again", text,
                                    100 * validation.slowest);
  } else if (wide) {
    validation.outcome = "undecided";
    validation.reason = fmt::format(
        "{}; but a measured rate is known to ±{:.0f} % only, as runs differ that much: let nothing else run, or pass a longer "
        "--time-budget",
        text, 100 * widest);
  } else if (!beyond && median_right && verdicts) {
    validation.outcome = "passed";
    validation.reason = text;
  } else if (verdicts && !apart && (median_right || !each_apart)) {
    validation.outcome = "undecided";
    validation.reason = fmt::format("{}; the predictions' intervals are wide enough to hold that, and say too little", text);
  } else {
    validation.outcome = "failed";
    validation.reason = fmt::format("{}; asked {:.0f} % and {:.0f} %; {} of {} bottlenecks right", text, 100 * most_median_error,
                                    100 * most_worst_error, validation.verdicts_right, validation.measured);
  }
  return validation;
}

}  // namespace dsanalyze
