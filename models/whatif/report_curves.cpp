#include "whatif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_core_points = 32;

CurvePoint point_of(double x, const WhatIfAnswer& answer) {
  return {x, answer.ingestion, answer.prep, answer.fetch, answer.samples_per_s, answer.ci95_samples_per_s, answer.bottleneck};
}

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text + ".";
}

void sort_out(std::vector<double>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end(), [](double a, double b) { return std::fabs(a - b) < 1e-9 * std::max(1.0, std::fabs(b)); }),
               values.end());
}

/// The answers to one list, by rising x.
template <typename XOf>
std::vector<CurvePoint> points(const RateModel& model, const WhatIfQuestion& question, const XOf& x_of) {
  const WhatIfResult result = answer(model, question);
  std::vector<CurvePoint> list;
  for (const WhatIfAnswer& each : result.answers)
    if (const std::optional<double> x = x_of(each.change)) list.push_back(point_of(*x, each));
  std::ranges::sort(list, {}, &CurvePoint::x);
  return list;
}

WhatIfFound find_one(const RateModel& model, const std::string& what) {
  WhatIfQuestion question;
  question.find = {what};
  return answer(model, question).found.at(0);
}

/// Rounded up, so that what is read is enough.
double at_least(double share) { return std::min(std::ceil(share * 1000 * (1 - 1e-12)) / 1000, 1.0); }

ReportCurve cache_curve(const RateModel& model) {
  ReportCurve curve;
  curve.now = model.cache_fraction;
  const WhatIfFound found = find_one(model, "cache");
  std::vector<double> shares{std::min(curve.now, 1.0)};
  for (int step = 0; step <= 20; ++step) shares.push_back(step / 20.0);
  if (found.value) {
    curve.crossing = at_least(*found.value);
    shares.push_back(*curve.crossing);
    curve.crossing_text = *curve.crossing <= curve.now
                              ? fmt::format("By the rates, fetch does not hold training up: {} of the dataset is in the cache, {} would be enough.",
                                            format_share(curve.now), format_share(*curve.crossing))
                              : fmt::format("With {} of the dataset in the cache or more, fetch no longer holds training up ({} now): {}.",
                                            format_share(*curve.crossing), format_share(curve.now), found.then);
  } else {
    curve.crossing_text = sentence(found.then);
  }
  sort_out(shares);
  WhatIfQuestion question;
  for (const double share : shares) question.cache_sizes.push_back({ByteAmount::Kind::fraction, 0, share});
  curve.points = points(model, question, [](const WhatIfChange& change) { return change.cache_fraction; });
  return curve;
}

ReportCurve cores_curve(const RateModel& model) {
  ReportCurve curve;
  curve.now = *model.cores;
  const WhatIfFound found = find_one(model, "cores");
  double most = 2 * curve.now;
  if (found.value && std::isfinite(*found.value)) {
    curve.crossing = std::ceil(*found.value * (1 - 1e-12));
    most = std::max(most, std::ceil(1.25 * *curve.crossing));
    curve.crossing_text = *curve.crossing <= curve.now
                              ? fmt::format("By the rates, prep does not hold training up: it has {} cores, {} would be enough.",
                                            format_number(curve.now), format_number(*curve.crossing))
                              : fmt::format("With {} cores or more, prep no longer holds training up ({} now): {}.", format_number(*curve.crossing),
                                            format_number(curve.now), found.then);
  } else {
    curve.crossing_text = sentence(found.then);
  }
  const double step = std::max(1.0, std::ceil(most / static_cast<double>(most_core_points)));
  std::vector<double> numbers{1, curve.now, curve.crossing.value_or(curve.now)};
  for (int point = 1; point * step <= most; ++point) numbers.push_back(point * step);
  sort_out(numbers);
  WhatIfQuestion question;
  for (const double cores : numbers) question.cores.push_back({cores, std::nullopt});
  curve.points = points(model, question, [](const WhatIfChange& change) { return change.cores; });
  return curve;
}

ReportCurve speed_curve(const RateModel& model) {
  ReportCurve curve;
  curve.now = 1;
  const WhatIfAnswer base = answer(model, {}).answers.at(0);
  const double crossing = std::min(base.prep, base.fetch) / *base.ingestion;
  const std::string binds = base.prep < base.fetch ? "prep [P]" : "fetch [F]";
  std::vector<double> speeds;
  for (int step = 0; step <= 16; ++step) speeds.push_back(std::exp2(-2 + step / 4.0));
  if (crossing >= 1.0 / 16 && crossing <= 16) {
    curve.crossing = crossing;
    speeds.push_back(crossing);
  }
  curve.crossing_text =
      crossing < 1 ? fmt::format("The accelerators already want more than {} brings: what comes would feed accelerators of {:.2f}x their speed.",
                                 binds, crossing)
                   : fmt::format("The data side feeds accelerators of up to {:.2f}x today's speed; faster ones wait for {}.", crossing, binds);
  sort_out(speeds);
  WhatIfQuestion question;
  question.accelerator_speeds = speeds;
  curve.points = points(model, question, [](const WhatIfChange& change) { return change.accelerator_speed; });
  return curve;
}

/// A question that the model refuses has no curve.
template <typename Make>
std::optional<ReportCurve> made(const RateModel& model, const Make& make) {
  try {
    return make(model);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

ReportCurves report_curves(const RateModel& model) {
  ReportCurves curves;
  curves.cache = made(model, cache_curve);
  if (model.cores) curves.cores = made(model, cores_curve);
  if (model.rates.ingestion) curves.accelerator_speed = made(model, speed_curve);
  return curves;
}

}  // namespace dsanalyze
