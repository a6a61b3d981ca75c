#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/text/units.hpp"
#include "training_model.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_curve_points = 12;
constexpr std::array asked_factors{0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0};  // each about the root of 2 times the one before

struct CurveAxis {
  std::string name;
  std::vector<std::string> find;  ///< WhatIfQuestion::find
  double now = 0;
  std::vector<double> values;  ///< rising
  void (*ask)(WhatIfQuestion& question, double value);
  std::optional<double> (*x)(const WhatIfChange& change);
};

/// 1, 2, 3, 4, 6, 8, 12 and so on: even on a logarithmic scale.
std::vector<double> whole_numbers(double most) {
  std::vector<double> numbers{1};
  const int doublings = std::ilogb(std::max(most, 1.0));
  for (int number = 1; number <= doublings; ++number) {
    const double power = std::ldexp(1, number);
    numbers.push_back(power);
    if (1.5 * power <= most) numbers.push_back(1.5 * power);
  }
  return numbers;
}

CurveAxis workers_axis(const TrainingModel& model) {
  const int most =
      std::min(static_cast<int>(most_extrapolation) * std::max({model.workers, model.prep.back().workers, 1}), most_moved_workers(model.path.found));
  CurveAxis axis{"workers",
                 {"workers"},
                 static_cast<double>(model.workers),
                 whole_numbers(most),
                 [](WhatIfQuestion& question, double value) { question.workers.push_back(static_cast<int>(value)); },
                 [](const WhatIfChange& change) { return change.workers ? std::optional<double>(*change.workers) : std::nullopt; }};
  axis.values.insert(axis.values.begin(), 0.0);
  return axis;
}

std::vector<CurveAxis> hardware_axes(double cores, double cache_fraction) {
  std::vector<double> tenths;
  for (int tenth = 0; tenth <= 10; ++tenth) tenths.push_back(tenth / 10.0);
  const std::vector<double> storage_factors(asked_factors.begin(), asked_factors.end());
  std::vector<double> speeds = storage_factors;
  std::erase_if(speeds, [](double speed) { return speed > most_extrapolation; });
  return {{"cores",
           {"cores"},
           cores,
           whole_numbers(most_extrapolation * std::max(cores, 1.0)),
           [](WhatIfQuestion& question, double value) {
             question.cores.push_back({value, std::nullopt});
           },
           [](const WhatIfChange& change) { return change.cores; }},
          {"cache_fraction",
           {"cache"},
           cache_fraction,
           tenths,
           [](WhatIfQuestion& question, double value) {
             question.cache_sizes.push_back({ByteAmount::Kind::fraction, 0, value});
           },
           [](const WhatIfChange& change) { return change.cache_fraction; }},
          {"accelerator_speed",
           {},
           1,
           speeds,
           [](WhatIfQuestion& question, double value) { question.accelerator_speeds.push_back(value); },
           [](const WhatIfChange& change) { return change.accelerator_speed; }},
          {"storage_factor",
           {},
           1,
           storage_factors,
           [](WhatIfQuestion& question, double value) {
             question.storage.push_back({std::nullopt, value});
           },
           [](const WhatIfChange& change) { return change.storage_factor; }}};
}

/// All but the one now, which is answered anyway; of too many, evenly.
std::vector<double> asked_values(const CurveAxis& axis) {
  constexpr double alike = 1e-9;
  constexpr std::size_t most = most_curve_points - 1;
  std::vector<double> values = axis.values;
  std::erase_if(values, [&axis](double value) { return std::abs(value - axis.now) < alike; });
  if (values.size() <= most) return values;
  std::vector<double> kept;
  for (std::size_t at = 0; at < most; ++at) kept.push_back(values[at * (values.size() - 1) / (most - 1)]);
  return kept;
}

CurvePoint curve_point(double x, const WhatIfAnswer& answer) {
  return {x,
          answer.ingestion,
          answer.prep,
          answer.fetch,
          answer.samples_per_s,
          answer.ci95_samples_per_s,
          answer.epoch_seconds,
          answer.extrapolation,
          answer.bottleneck,
          answer.detail,
          answer.too_close,
          answer.stalls};
}

void take_crossing(const WhatIfFound& found, ReportCurve& curve) {
  if (!found.value) {
    curve.crossing_text = found.then + ".";
    if (const char first = found.then.front(); first >= 'a' && first <= 'z') curve.crossing_text.front() = static_cast<char>(first - 'a' + 'A');
    return;
  }
  const bool is_share = curve.name == "cache_fraction";
  const auto text = [is_share](double value) { return is_share ? format_share(value) : format_number(value); };
  curve.crossing = is_share ? whatif::fraction_at_least(*found.value) : *found.value;
  curve.crossing_text = fmt::format("{} {} would be enough ({} now): {}.", text(*curve.crossing), found.unit, text(curve.now), found.then);
}

template <typename Model>
ReportCurve curve_of(const Model& model, const CurveAxis& axis) {
  ReportCurve curve{axis.name};
  curve.now = axis.now;
  WhatIfQuestion question;
  question.find = axis.find;
  for (const double value : asked_values(axis)) axis.ask(question, value);
  try {
    const WhatIfResult result = answer(model, question);
    for (const WhatIfAnswer& each : result.answers) curve.points.push_back(curve_point(axis.x(each.change).value_or(axis.now), each));
    std::ranges::sort(curve.points, {}, &CurvePoint::x);
    for (const WhatIfFound& found : result.found) take_crossing(found, curve);
  } catch (const UsageError& refused) {
    curve.why_absent = refused.what();
  }
  return curve;
}

template <typename Model>
ReportCurves curves_of(const Model& model, const std::vector<CurveAxis>& axes) {
  ReportCurves curves;
  curves.base = curve_point(0, answer(model, WhatIfQuestion{}).answers.at(0));
  for (const CurveAxis& axis : axes) curves.axes.push_back(curve_of(model, axis));
  return curves;
}

}  // namespace

ReportCurves report_curves(const ProfileResult& profile) {
  if (profile.command.empty()) {
    const RateModel model = rate_model(profile);
    return curves_of(model, hardware_axes(model.cores.value_or(1), model.cache_fraction));
  }
  const TrainingModel model = training_model(profile);
  const double cached = model.storage ? static_cast<double>(model.storage->page_cache_bytes) / static_cast<double>(model.storage->dataset_bytes) : 0;
  std::vector<CurveAxis> axes = hardware_axes(model.cores, std::min(cached, 1.0));
  axes.insert(axes.begin(), workers_axis(model));
  return curves_of(model, axes);
}

}  // namespace dsanalyze
