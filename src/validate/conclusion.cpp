#include "conclusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"

namespace dsanalyze {
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

Prediction prediction_of(const WhatIfAnswer& answer) {
  if (const auto& simulated = answer.simulated)
    return {simulated->samples_per_s, simulated->ci95_samples_per_s, simulated->bottleneck, simulated->too_close};
  return {answer.samples_per_s, answer.ci95_samples_per_s, answer.bottleneck, answer.too_close};
}

void judge(WhatIfAnswer& answer, const WhatIfAnswer& now, const MeasuredVerdict& verdict) {
  if (!answer.measured) return;
  WhatIfAnswer::Measured& measured = *answer.measured;
  const Prediction prediction = prediction_of(now);
  measured.error = prediction.samples_per_s / measured.samples_per_s - 1;
  measured.error_as_profiled = prediction_of(answer).samples_per_s / measured.samples_per_s - 1;
  measured.closed_form_error = now.samples_per_s / measured.samples_per_s - 1;
  measured.covered = prediction.ci95.low <= measured.samples_per_s && measured.samples_per_s <= prediction.ci95.high;
  measured.bottleneck = verdict.bottleneck;
  measured.verdict_right = prediction.bottleneck == verdict.bottleneck || prediction.too_close || verdict.too_close;
}

WhatIfValidation conclude_validation(const std::vector<WhatIfAnswer>& answers, const ValidationOptions& options) {
  WhatIfValidation validation;
  std::vector<double> errors, closed_form, as_profiled, speeds;
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
    closed_form.push_back(std::abs(measured.closed_form_error));
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
  validation.closed_form_median_error = median(closed_form);
  validation.closed_form_worst_error = std::ranges::max(closed_form);
  validation.worst_error_as_profiled = std::ranges::max(as_profiled);
  validation.slowest = std::ranges::min(speeds);
  validation.fastest = std::ranges::max(speeds);
  validation.covered_share = static_cast<double>(covered) / static_cast<double>(errors.size());
  const bool within = validation.median_error <= options.most_median_error && validation.worst_error <= options.most_worst_error;
  const std::string errors_text = fmt::format("errors of {} (median) and {} (worst) over {} set-ups", percent(validation.median_error),
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
