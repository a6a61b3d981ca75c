#include "validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/host/control_group.hpp"
#include "base/statistics.hpp"
#include "core/sharing_modes.hpp"
#include "models/simulate/profile_simulation.hpp"

namespace dsanalyze {

namespace {

constexpr double gauge_seconds = 5;
constexpr Bytes most_gauge_bytes =
    Bytes{1} << 30;  ///< in memory beside the runs' own caches: a random part of a large subset tells the speed as well

}  // namespace

double jobs_that_share(const WhatIfAnswer& answer) {
  return answer.change.share.empty() || answer.change.share == job_sharing_name(JobSharing::none) ? 1 : answer.change.jobs.value_or(1);
}

Speedometer::Speedometer(const ProfileInputs& base, const ProfileResult& profile, const std::stop_token& stop, Timing timing) : m_profile(profile) {
  if (seconds(profile) == 0 || !profile.prep) return;
  for (const CorePoint& point : profile.prep_by_cores) m_profiled[point.cores] = point.samples_per_s;
  m_profiled[profile.settings.cores] = profile.prep->samples_per_s;
  ProfileInputs inputs = base;
  const Bytes subset = profile.dataset.subset_bytes > 0 ? profile.dataset.subset_bytes : inputs.index->bytes();
  inputs.settings.subset = ByteAmount{ByteAmount::Kind::bytes, std::min(subset, most_gauge_bytes), 0};
  m_gauge.emplace(inputs, stop, timing);
}

double Speedometer::seconds(const ProfileResult& profile) { return profile.settings.prep == Seam::real ? 2 * gauge_seconds : 0; }

int Speedometer::cores_of(const WhatIfAnswer& answer) const { return changed_settings(m_profile, answer).settings.cores; }

PrepGauge::Speed Speedometer::gauge(int cores) {
  if (!m_gauge) return {};
  const PrepGauge::Speed speed = m_gauge->speed(cores, gauge_seconds);
  m_work[cores].add(speed);
  return speed;
}

void Speedometer::begin(const WhatIfAnswer& answer) {
  const int own = cores_of(answer);
  m_cores = m_profiled.contains(own) ? own : m_profile.settings.cores;
  m_before = gauge(m_cores);
  if (m_gauge) m_gauge->begin_probe(m_cores);
}

double Speedometer::end() {
  const double probe_seconds = m_gauge ? m_gauge->end_probe() : 0;
  const PrepGauge::Speed after = gauge(m_cores);
  m_while = m_gauge ? prep_while(after, probe_seconds) : 0;
  return m_while > 0 ? m_while / m_profiled.at(m_cores) : 1;
}

double Speedometer::prep(const WhatIfAnswer& answer) {
  if (!m_gauge) return answer.prep;
  const int cores = cores_of(answer);
  const double jobs = jobs_that_share(answer);
  if (cores == m_cores && m_while > 0) return m_while * jobs;
  const auto known = m_others.find(cores);
  return jobs * (known != m_others.end() ? known->second : m_others[cores] = gauge(cores).samples_per_s);
}

double Speedometer::prep_while(const PrepGauge::Speed& after, double probe_seconds) const {
  if (const auto probed = m_work.at(m_cores).prep(probe_seconds)) return *probed;
  return m_before.samples_per_s > 0 && after.samples_per_s > 0 ? (m_before.samples_per_s + after.samples_per_s) / 2 : 0;
}

void ProbedWork::add(const PrepGauge::Speed& gauge) {
  if (gauge.samples_per_s <= 0 || gauge.probe_seconds <= 0) return;
  m_sum += gauge.samples_per_s * gauge.probe_seconds;
  ++m_gauges;
}

std::optional<double> ProbedWork::prep(double probe_seconds) const {
  if (m_gauges == 0 || probe_seconds <= 0) return std::nullopt;
  return m_sum / m_gauges / probe_seconds;
}
namespace {

constexpr double least_steady_seconds = 15;  ///< windows of a second: fewer leave an interval of several percent
constexpr double measured_epochs = 3;
constexpr double share_of_the_full_run = 0.8;  ///< of a profile's time budget

/// A smaller difference between two rates says nothing about the bottleneck.
double least_telling(const ProfileSettings& settings) { return settings.prep == Seam::real ? std::numbers::sqrt2 * real_run_error : 0.015; }

/// The limit that real storage needs to be as slow as the answer's; nullopt when it needs none.
std::optional<double> storage_limit(const ProfileResult& profile, const WhatIfAnswer& answer) {
  const bool slower = answer.change.storage_factor || answer.change.storage_bytes_per_s;
  if (!slower || profile.settings.storage != Seam::real || !profile.storage) return std::nullopt;
  return answer.storage * profile.dataset.mean_sample_bytes;
}

/// Why storage cannot be made as slow as the answer's here (no root, no disk); empty when it can, or need not be.
std::string slowing_refused(const ProfileInputs& base, const ProfileResult& profile, const WhatIfAnswer& answer) {
  const auto limit = storage_limit(profile, answer);
  if (!limit) return "";
  try {
    const StorageGroup permitted(base.index->facts().root, *limit);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Runs the configurations of answers.
class Runs {
 public:
  Runs(const ProfileInputs& base, const ProfileResult& profile, EventSink& events, const std::stop_token& stop, Timing timing)
      : m_base(base), m_profile(profile), m_events(events), m_stop(stop), m_timing(timing) {}

  /// The run "full" of the answer's configuration.
  RunRecord full(const WhatIfAnswer& answer, double seconds) {
    ProfileInputs inputs = m_base;
    inputs.settings = changed_settings(m_profile, answer).settings;
    inputs.settings.runs = {"full"};
    inputs.settings.time_budget_seconds = seconds;
    if (m_profile.dataset.subset_bytes > 0) inputs.settings.subset = ByteAmount{ByteAmount::Kind::bytes, m_profile.dataset.subset_bytes, 0};
    std::optional<StorageGroup> slower;
    if (const auto limit = storage_limit(m_profile, answer)) slower.emplace(inputs.index->facts().root, *limit);
    const ProfilePlan plan = plan_profile(inputs);
    const ProfileResult result = run_profile(inputs, plan, null_events(), m_stop, m_timing);
    for (const Finding& finding : result.findings)
      if (finding.severity == Finding::Severity::error && m_said.insert(finding.code).second) m_events.finding(finding);
    const RunRecord* record = result.run("full");
    return record != nullptr ? *record : RunRecord{};
  }

 private:
  const ProfileInputs& m_base;
  const ProfileResult& m_profile;
  EventSink& m_events;
  std::stop_token m_stop;
  Timing m_timing;
  std::set<std::string> m_said;  ///< codes of findings: once for all runs
};

/// The first epoch, which fills the cache, and after it three epochs or so long that there are enough windows; a run takes a part of its time to
/// start.
double needed_seconds(const ProfileResult& profile, const WhatIfAnswer& answer) {
  const auto subset = static_cast<double>(profile.dataset.subset_samples > 0 ? profile.dataset.subset_samples : profile.dataset.samples);
  // G and P of an answer are of all its jobs; those that share go over the subset together.
  const double jobs = answer.change.jobs.value_or(1);
  const double sharing = jobs_that_share(answer);
  const double first = jobs / sharing * subset / std::min({answer.storage, answer.prep / sharing, answer.ingestion.value_or(answer.prep) / sharing});
  const double steady = std::max(least_steady_seconds, measured_epochs * jobs * subset / answer.samples_per_s);
  return (1.2 * first + steady) / share_of_the_full_run + Speedometer::seconds(profile);
}

/// The most telling of those that are left, given those that are chosen.
std::size_t most_telling(const std::vector<WhatIfAnswer>& answers, const std::vector<std::size_t>& chosen, const std::vector<std::size_t>& left) {
  const auto value = [&](std::size_t at) {
    const WhatIfAnswer& answer = answers[at];
    bool known = false;
    double nearest = std::numeric_limits<double>::infinity();
    for (const std::size_t other : chosen) {
      known = known || answers[other].bottleneck == answer.bottleneck;
      nearest = std::min(nearest, std::abs(std::log(answer.samples_per_s / answers[other].samples_per_s)));
    }
    return std::pair(!known, nearest);
  };
  return *std::ranges::max_element(left, {}, value);
}

}  // namespace

std::string cannot_run(const ProfileInputs& base, const ProfileResult& profile, const WhatIfAnswer& answer) {
  const ChangedSettings changed = changed_settings(profile, answer);
  if (!changed.why_not.empty()) return changed.why_not;
  const ProfileSettings& settings = changed.settings;
  if (!answer.ingestion) return "without an accelerator nothing trains";
  if (settings.accelerator == AcceleratorKind::cuda)
    return "a profile in front of real GPUs is not run again by --validate yet: profile with the change";
  if (settings.share != JobSharing::none && !base.start_job) return "jobs that share are processes, and nothing here can start them";
  if (settings.prep == Seam::real && settings.cores > static_cast<int>(base.host.cpus_allowed.size()))
    return fmt::format("this process may use {} cores", base.host.cpus_allowed.size());
  if (storage_limit(profile, answer) && profile.storage && answer.storage > profile.storage->samples_per_s * (1 + 1e-9))
    return "this machine's storage can be made slower, not faster";
  if (std::string refusal = slowing_refused(base, profile, answer); !refusal.empty()) return refusal;
  if (settings.cache == CacheKind::page && answer.change.cache_fraction)
    return "the kernel's page cache is held to a size by --memory-limit of a profile";
  try {
    ProfileInputs inputs = base;
    inputs.settings = settings;
    inputs.settings.runs = {"full"};
    plan_profile(inputs);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

ValidationPlan plan_validation(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options) {
  std::vector<WhatIfAnswer>& answers = result.answers;
  ValidationPlan plan;
  std::vector<std::size_t> left;
  for (std::size_t at = 0; at < answers.size(); ++at) {
    answers[at].not_measured = cannot_run(base, profile, answers[at]);
    if (!answers[at].not_measured.empty()) continue;
    left.push_back(at);
    plan.seconds_of_all += needed_seconds(profile, answers[at]);
  }
  if (options.seconds > 0 && plan.seconds_of_all > 0) plan.stretch = options.seconds / plan.seconds_of_all;
  const double most = options.seconds > 0 ? std::numeric_limits<double>::infinity() : ValidationOptions::default_seconds;
  while (!left.empty()) {
    // answers[0] is the unchanged configuration.
    const std::size_t next = plan.order.empty() ? left.front() : most_telling(answers, plan.order, left);
    std::erase(left, next);
    const double seconds = plan.stretch * needed_seconds(profile, answers[next]);
    if (!plan.order.empty() && plan.seconds + seconds > most) {
      ++plan.left_out;
      answers[next].not_measured =
          fmt::format("it does not fit into {}: pass --time-budget {:.0f}s", format_seconds(most), std::ceil(plan.seconds_of_all));
      continue;
    }
    plan.order.push_back(next);
    plan.seconds += seconds;
  }
  return plan;
}

std::string plan_text(const ValidationPlan& plan, std::size_t answers) {
  std::string text = fmt::format("validation: {} of {} configurations run here, about {} in all, the most telling first", plan.order.size(), answers,
                                 format_seconds(plan.seconds));
  if (plan.left_out > 0)
    text += fmt::format("; {} more would take {} together with these (--time-budget)", plan.left_out, format_seconds(plan.seconds_of_all));
  return text;
}

void validate(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options, EventSink& events,
              const std::stop_token& stop, Timing timing) {
  std::vector<WhatIfAnswer>& answers = result.answers;
  const ValidationPlan plan = plan_validation(base, profile, result, options);
  const std::vector<std::size_t>& order = plan.order;
  const double share = plan.stretch;
  const double needed = plan.seconds / share;
  if (order.empty()) {
    result.validation = conclude_validation(answers, options);
    return;
  }

  Runs runs(base, profile, events, stop, timing);
  Speedometer speedometer(base, profile, stop, timing);
  double done = 0;
  for (std::size_t at = 0; at < order.size(); ++at) {
    WhatIfAnswer& answer = answers[order[at]];
    const double seconds = share * needed_seconds(profile, answer);
    events.progress({fmt::format("validation, configuration {} of {}", at + 1, order.size()), done / (share * needed), share * needed - done});
    speedometer.begin(answer);
    const RunRecord record = runs.full(answer, std::max(seconds - Speedometer::seconds(profile), 1.0));
    const double speed = speedometer.end();
    done += seconds;
    if (record.samples_per_s <= 0) {
      answer.not_measured = "its run gave no rate in the time: pass a longer --time-budget";
      continue;
    }
    answer.measured = WhatIfAnswer::Measured{};
    answer.measured->samples_per_s = record.samples_per_s;
    answer.measured->ci95_samples_per_s = record.ci95_samples_per_s;
    answer.measured->windows = record.windows;
    answer.measured->void_windows = record.void_windows;
    answer.measured->speed = speed;
    const WhatIfAnswer now = speed == 1 ? answer : at_prep_speed(profile, answer, speed);
    const double cached = std::min(speedometer.prep(now), *answer.ingestion);
    judge(answer, now,
          measured_verdict(record.samples_per_s, std::max(cached, record.samples_per_s), *answer.ingestion, least_telling(profile.settings)));
    events.note(fmt::format("configuration {} of {}: predicted {} samples/s, measured {} ({:+.1f} %)", at + 1, order.size(),
                            format_number(now.samples_per_s), format_number(record.samples_per_s), 100 * answer.measured->error));
  }
  result.validation = conclude_validation(answers, options);
}

namespace {

/// All of a run's windows were void: it shows nothing.
bool is_void(const WhatIfAnswer::Measured& measured) { return measured.windows == 0; }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

MeasuredVerdict measured_verdict(double full, double cached, double ingestion, double least) {
  const double lost_to_fetch = 1 - full / cached;
  const double lost_to_prep = 1 - cached / ingestion;
  MeasuredVerdict verdict;
  verdict.bottleneck = lost_to_fetch > least ? "io" : lost_to_prep > least ? "cpu" : "gpu";
  const auto at_the_edge = [least](double lost) { return lost >= least / 2 && lost <= 2 * least; };
  verdict.too_close = at_the_edge(lost_to_fetch) || (lost_to_fetch <= least && at_the_edge(lost_to_prep));
  return verdict;
}

void judge(WhatIfAnswer& answer, const WhatIfAnswer& now, const MeasuredVerdict& verdict) {
  if (!answer.measured) return;
  WhatIfAnswer::Measured& measured = *answer.measured;
  measured.error = now.samples_per_s / measured.samples_per_s - 1;
  measured.error_as_profiled = answer.samples_per_s / measured.samples_per_s - 1;
  measured.covered = now.ci95_samples_per_s.low <= measured.samples_per_s && measured.samples_per_s <= now.ci95_samples_per_s.high;
  measured.bottleneck = verdict.bottleneck;
  measured.verdict_right = now.bottleneck == verdict.bottleneck || now.too_close || verdict.too_close;
}

WhatIfValidation conclude_validation(const std::vector<WhatIfAnswer>& answers, const ValidationOptions& options) {
  WhatIfValidation validation;
  std::vector<double> errors, as_profiled, speeds;
  std::uint64_t windows = 0, voided = 0, covered = 0;
  for (const WhatIfAnswer& answer : answers) {
    if (!answer.measured) {
      ++validation.not_measured;
      continue;
    }
    const WhatIfAnswer::Measured& measured = *answer.measured;
    windows += measured.windows + measured.void_windows;
    voided += measured.void_windows;
    if (is_void(measured)) continue;
    ++validation.measured;
    errors.push_back(std::abs(measured.error));
    as_profiled.push_back(std::abs(measured.error_as_profiled));
    speeds.push_back(measured.speed);
    covered += measured.covered ? 1 : 0;
    validation.verdicts_right += measured.verdict_right ? 1 : 0;
  }
  validation.void_share = windows > 0 ? static_cast<double>(voided) / static_cast<double>(windows) : 0;
  if (errors.empty()) {
    validation.outcome = "undecided";
    validation.reason =
        windows > 0 ? "other processes took the CPU in every window: stop them and validate again" : "this machine can run none of the answers";
    return validation;
  }
  validation.median_error = median(errors);
  validation.worst_error = std::ranges::max(errors);
  validation.worst_error_as_profiled = std::ranges::max(as_profiled);
  validation.slowest = std::ranges::min(speeds);
  validation.fastest = std::ranges::max(speeds);
  validation.covered_share = static_cast<double>(covered) / static_cast<double>(errors.size());
  const bool within = validation.median_error <= options.most_median_error && validation.worst_error <= options.most_worst_error;
  const std::string errors_text = fmt::format("errors of {} (median) and {} (worst) over {} configurations", percent(validation.median_error),
                                              percent(validation.worst_error), errors.size());
  if (within && validation.verdicts_right == errors.size()) {
    validation.outcome = "passed";
    validation.reason = errors_text;
  } else {
    validation.outcome = "failed";
    validation.reason = fmt::format("{}; asked {} and {}; {} of {} verdicts right", errors_text, percent(options.most_median_error),
                                    percent(options.most_worst_error), validation.verdicts_right, errors.size());
  }
  return validation;
}

}  // namespace dsanalyze
