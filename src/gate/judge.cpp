#include "judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "metrics.hpp"
#include "runs.hpp"

namespace dsanalyze::gate {
namespace {

/// Where there is no scatter to plan from: what CPU-bound runs of equal settings commonly have.
constexpr double typical_scatter = 0.03;

/// With fewer, other work that met all runs of a side is too likely: of two runs both, where it meets a fifth of them, in 4 of 100.
constexpr std::size_t least_runs = 3;

/// Runs are never taken to scatter less than by this part of what each one's own interval says: windows that share batches were measured to scatter
/// up to seven times as much as runs do, and rates that are counted in whole batches can be the same by chance.
constexpr double least_of_own = 0.1;

/// Beyond any effect there is: what is open in practice, or absurd, must still be a number in the record.
constexpr double widest = 20;

double effect_of(const MetricKind& kind, double estimate) {
  const double bounded = std::clamp(estimate, -widest, widest);
  return kind.scale == GateScale::ratio ? std::expm1(bounded) : bounded;
}
double level_value(const MetricKind& kind, double value) { return kind.scale == GateScale::ratio ? std::exp(value) : value; }
double worse_by(const MetricKind& kind, double effect) { return kind.worse == Worse::lower ? -effect : effect; }

/// "5.1 %", "2.3 points": the size of a change.
std::string size_text(const MetricKind& kind, double size) {
  return fmt::format("{:.{}f} {}", 100 * size, size < 0.001 ? 2 : 1, kind.scale == GateScale::ratio ? "%" : "points");
}

std::string worse_word(const MetricKind& kind) { return kind.scale == GateScale::ratio ? "slower" : "more stall"; }
std::string better_word(const MetricKind& kind) { return kind.scale == GateScale::ratio ? "faster" : "less stall"; }

/// Repetitions that the plan for a further comparison needs beside those there are.
std::int64_t more_repetitions(const Compared& compared, const Judgement& judgement) {
  const double size = std::fabs(effect_of(compared.kind, compared.contrast.estimate));
  // A change near the least that counts would take for ever to place on either side: the plan takes half of that as the least distance.
  const double distance = std::max(size >= judgement.min_effect ? size : judgement.min_effect - size, judgement.min_effect / 2);
  const double deviation = compared.contrast.has_scatter() ? compared.contrast.deviation : typical_scatter * std::sqrt(2.0);
  // Of trimmed means about half of the values make the degrees of freedom; of sessions all, of both sides.
  const std::int64_t needed =
      needed_repetitions(deviation, distance, judgement.level * compared.kind.weight, judgement.unit == GateUnit::session ? 2 : 0.5);
  if (compared.fewest_runs > 0 && compared.fewest_runs < least_runs && compared.contrast.has_scatter())
    return static_cast<std::int64_t>(least_runs - compared.fewest_runs);
  const auto there = static_cast<std::int64_t>(std::min(compared.observations_baseline, compared.observations_current));
  return std::max<std::int64_t>(needed - there, 1);
}

std::string more_text(const Compared& compared, const Judgement& judgement, std::int64_t more) {
  const auto count = gate_count_text(judgement.unit, static_cast<std::size_t>(more));
  const std::string least =
      more >= most_repetitions / 2 ? "thousands of further " + gate_unit_name(judgement.unit) + "s" : "about " + count + " more";
  const std::string each = judgement.unit == GateUnit::pair ? "" : " a side";
  const std::string guess = compared.contrast.has_scatter() ? "" : fmt::format(", if they scatter by {:.0f} %,", 100 * typical_scatter);
  return fmt::format("{}{}{} would decide", least, each, guess);
}

std::string unknown_reason(const Compared& compared, const Judgement& judgement, const Interval& interval) {
  const double effect = effect_of(compared.kind, compared.contrast.estimate);
  const bool sound = interval.low > 0 || interval.high < 0;
  const std::string least = size_text(compared.kind, judgement.min_effect);
  if (sound)
    return fmt::format("{} {} for sure, but whether by {} or more is open", size_text(compared.kind, std::fabs(effect)),
                       worse_by(compared.kind, effect) > 0 ? worse_word(compared.kind) : better_word(compared.kind), least);
  return fmt::format("a change of {} is neither shown nor ruled out", least);
}

/// "the baseline run", "all 3 baseline runs", "1 of the 3 baseline runs"
std::string lacking_text(std::size_t lacking, std::size_t runs, std::string_view side) {
  if (runs == 1) return fmt::format("the {} run", side);
  if (lacking == runs) return fmt::format("all {} {} runs", runs, side);
  return fmt::format("{} of the {} {} runs", lacking, runs, side);
}

}  // namespace

Collected collect(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options) {
  Collected collected;
  const bool normalized = options.normalize == Normalize::by_calibration;
  const double reference = normalized ? mean_calibration(baseline) : 1;
  for (const MetricKind& kind : chosen_metrics(options.metrics)) {
    const NormalizingRule rule = normalized ? normalizing_rule(kind, baseline, current) : NormalizingRule{};
    if (rule.way == Normalizing::left_out) {
      collected.absent.push_back({kind.name, rule.reason});
      continue;
    }
    const auto log_speed = [&](const GateRun& run) {
      return rule.way == Normalizing::divided ? std::log(run.profile.host.calibration_passes_per_s.value_or(reference) / reference) : 0;
    };
    Series series{kind, {}, {}};
    std::string missing;
    const auto take = [&](std::string_view side, std::span<const GateRun> runs, std::vector<double>& values, double& own) {
      std::size_t lacking = 0;
      std::string reason;
      for (const GateRun& run : runs) {
        const MetricValue found = metric_value(run.profile, kind);
        if (found.value) {
          own += found.own_deviation * found.own_deviation / static_cast<double>(runs.size());
          values.push_back(kind.scale == GateScale::ratio ? std::log(*found.value) - log_speed(run) : *found.value);
        } else if (lacking++ == 0) {
          reason = found.missing;
        }
      }
      if (lacking > 0) missing += (missing.empty() ? reason + " in " : " and ") + lacking_text(lacking, runs.size(), side);
    };
    take("baseline", baseline, series.baseline, series.own_baseline);
    take("current", current, series.current, series.own_current);
    if (missing.empty()) {
      collected.series.push_back(std::move(series));
    } else {
      collected.absent.push_back({kind.name, missing});
    }
  }
  return collected;
}

void bound_below(Compared& compared, const Series& series, std::size_t runs_baseline, std::size_t runs_current) {
  compared.fewest_runs = std::min(runs_baseline, runs_current);
  compared.least_error = least_of_own * least_of_own *
                         (series.own_baseline / static_cast<double>(runs_baseline) + series.own_current / static_cast<double>(runs_current));
  Contrast& contrast = compared.contrast;
  double error = 0;
  double degrees = 0;
  for (const SquaredError& each : contrast.errors) {
    error += each.value;
    degrees = degrees == 0 ? each.degrees : std::min(degrees, each.degrees);
  }
  if (!contrast.has_scatter() || error >= compared.least_error) return;
  contrast.errors.push_back({compared.least_error - error, degrees});
  contrast.deviation = std::max(contrast.deviation, std::sqrt(compared.least_error * static_cast<double>(compared.fewest_runs)));
}

GateMetric judge(const Compared& compared, const Judgement& judgement) {
  const MetricKind& kind = compared.kind;
  const Contrast& contrast = compared.contrast;
  GateMetric metric;
  metric.name = kind.name;
  metric.scale = kind.scale;
  metric.baseline = level_value(kind, compared.baseline);
  metric.current = level_value(kind, compared.current);
  metric.observations_baseline = compared.observations_baseline;
  metric.observations_current = compared.observations_current;
  metric.effect = effect_of(kind, contrast.estimate);
  const auto undecided = [&](const std::string& why) {
    metric.verdict = GateVerdict::cannot_tell;
    if (!judgement.distrusted.empty()) {
      metric.reason = judgement.distrusted;
      return;
    }
    metric.more = more_repetitions(compared, judgement);
    metric.reason = fmt::format("{}; {}", why, more_text(compared, judgement, *metric.more));
  };
  if (!contrast.has_scatter()) {
    undecided(judgement.one_sided);
    return metric;
  }
  const double half = margin(contrast, judgement.level * kind.weight);
  metric.interval = Interval{effect_of(kind, contrast.estimate - half), effect_of(kind, contrast.estimate + half)};
  const double worse = worse_by(kind, metric.effect);
  const bool sound = metric.interval->low > 0 || metric.interval->high < 0;
  const bool within = metric.interval->low > -judgement.min_effect && metric.interval->high < judgement.min_effect;
  if (!judgement.distrusted.empty()) {
    undecided("");
  } else if (compared.fewest_runs < least_runs) {
    undecided("a verdict needs three runs a side, as other work that meets all of fewer looks like a change");
  } else if (sound && worse >= judgement.min_effect) {
    metric.verdict = GateVerdict::regression;
    metric.reason = fmt::format("{} {}", size_text(kind, worse), worse_word(kind));
  } else if (sound && -worse >= judgement.min_effect) {
    metric.verdict = GateVerdict::improvement;
    metric.reason = fmt::format("{} {}", size_text(kind, -worse), better_word(kind));
  } else if (within) {
    metric.verdict = GateVerdict::no_change;
    metric.reason = fmt::format("any change is below {}", size_text(kind, judgement.min_effect));
  } else {
    undecided(unknown_reason(compared, judgement, *metric.interval));
  }
  return metric;
}

std::string find_far_off(const std::vector<Compared>& compared, const Judgement& judgement, std::vector<Finding>& findings) {
  std::vector<std::string> names;
  std::size_t most = 0;
  for (const Compared& each : compared) {
    const auto far_off = static_cast<std::size_t>(
        std::ranges::count_if(each.contrast.far_off, [&judgement](double distance) { return std::fabs(distance) >= judgement.min_effect; }));
    if (far_off == 0) continue;
    names.push_back(each.kind.name);
    most = std::max(most, far_off);
  }
  if (names.empty()) return "";
  findings.push_back(
      {"far-off", Finding::Severity::info,
       fmt::format("Up to {} far off the others ({}) hardly counted: a burst of other work does that. So would a side that is slow only now "
                   "and then, which the gate does not see.",
                   gate_count_text(judgement.unit, most), fmt::join(names, ", "))});
  const Compared& any = compared.front();
  const bool pairs = judgement.unit == GateUnit::pair;
  return fmt::format("{} of {} ({}) lay far off the others and hardly counted", most,
                     gate_count_text(judgement.unit, any.observations_baseline + (pairs ? 0 : any.observations_current)), fmt::join(names, ", "));
}

double level_of(const std::vector<Compared>& compared, double alpha) {
  std::vector<std::vector<double>> residuals;
  std::vector<double> weights;
  for (const Compared& each : compared) {
    weights.push_back(each.kind.weight);
    residuals.push_back(each.contrast.residuals);
    if (each.kind.worse == Worse::lower)
      for (double& value : residuals.back()) value = -value;
  }
  return simultaneous_level(residuals, weights, alpha);
}

void conclude(GateResult& result, const GateOptions& options, const Reservations& reservations) {
  const auto names_with = [&result](GateVerdict verdict) {
    std::vector<std::string> names;
    for (const GateMetric& metric : result.metrics)
      if (metric.verdict == verdict) names.push_back(metric.name);
    return names;
  };
  const auto listed = [&names_with](GateVerdict verdict) { return fmt::format("{}", fmt::join(names_with(verdict), ", ")); };
  const auto any = [&names_with](GateVerdict verdict) { return !names_with(verdict).empty(); };
  std::vector<std::string> asked_for_absent;
  for (const GateAbsence& each : result.absent)
    if (std::ranges::find(options.metrics, each.metric) != options.metrics.end()) asked_for_absent.push_back(each.metric);
  using enum GateVerdict;
  if (any(regression)) {
    result.verdict = regression;
    result.reason = listed(regression) + " got worse";
  } else if (result.metrics.empty()) {
    result.verdict = cannot_tell;
    result.reason = "no metric is there on both sides";
  } else if (any(cannot_tell) || !asked_for_absent.empty()) {
    result.verdict = cannot_tell;
    result.reason = any(cannot_tell) ? listed(cannot_tell) + (names_with(cannot_tell).size() == 1 ? " is" : " are") + " undecided"
                                     : fmt::format("{} was asked for and is not there on both sides", fmt::join(asked_for_absent, ", "));
  } else if (any(improvement)) {
    result.verdict = improvement;
    result.reason = listed(improvement) + " got better, nothing got worse";
  } else {
    result.verdict = no_change;
    result.reason = fmt::format("every metric stayed within ± {:.3g} %", 100 * options.min_effect);
  }
  if (result.verdict == cannot_tell) return;
  if (!reservations.far_off.empty()) result.reason += ", but " + reservations.far_off;
  if (reservations.one_after_the_other)
    result.reason +=
        "; all runs of one side came first, so a drift of the machine looks like a change or hides one, and the stated error rates do not hold";
}

GateResult begin_result(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options) {
  GateResult result;
  result.tool = this_tool();
  result.min_effect = options.min_effect;
  result.confidence = 1 - 2 * family_alpha;
  result.ignored = require_comparable(baseline, current, options);
  const auto describe = [](std::span<const GateRun> runs, GateSide& side) {
    std::set<std::string> tools;
    for (const GateRun& run : runs) {
      if (std::ranges::find(side.sources, run.source) == side.sources.end()) side.sources.push_back(run.source);
      const ToolRecord& tool = run.profile.tool;
      tools.insert(fmt::format("{} {}{}", tool.name, tool.version, tool.commit.empty() ? "" : " (" + tool.commit + ")"));
    }
    side.runs = runs.size();
    side.tools.assign(tools.begin(), tools.end());
  };
  describe(baseline, result.baseline);
  describe(current, result.current);
  find_chosen_differently(baseline, current, result.findings);
  if (options.normalize == Normalize::by_calibration) {
    require_calibrations(baseline, current);
    result.normalized = true;
    result.baseline.calibration = mean_calibration(baseline);
    result.current.calibration = mean_calibration(current);
    result.findings.push_back(
        {"normalized", Finding::Severity::info,
         fmt::format(
             "P, cached and full are brought to the speed of the baseline's CPU by the calibration in each result: {:.4g} passes/s against {:.4g} "
             "({:+.1f} %). CPUs differ in more than that (caches, memory, vector units): take a verdict between machines as a hint.",
             *result.current.calibration, *result.baseline.calibration, 100 * (*result.current.calibration / *result.baseline.calibration - 1))});
  }
  return result;
}

std::string distrust(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options) {
  if (options.untrusted == Untrusted::accept) return "";
  for (const std::span<const GateRun> runs : {baseline, current})
    for (const GateRun& run : runs)
      if (!run.profile.trusted) {
        const auto& findings = run.profile.findings;
        const auto cause = std::ranges::find(findings, Finding::Severity::error, &Finding::severity);
        return fmt::format("{} is not trusted{}; measure it again, leave it out, or --allow-untrusted", run.source,
                           cause == findings.end() ? "" : " (" + cause->code + ")");
      }
  return "";
}

}  // namespace dsanalyze::gate
