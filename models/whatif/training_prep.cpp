#include "training_prep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "training_cores.hpp"
#include "training_supply.hpp"

namespace dsanalyze {
namespace {

using Limit = TrainingRates::Limit;

constexpr std::array limits{Limit::workers, Limit::cores, Limit::process};
constexpr double rounding = 1e-9;
/// Limits that are so close hold alike.
constexpr double hardly_above = 1.05;

/// What preparing in the training process may differ by from preparing in a worker.
constexpr double in_process_error = 0.1;

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// What the law says of one limit.
double law_of(const TrainingModel& model, Limit limit, int workers, double cores) {
  const double ranks = model.ranks;
  switch (limit) {
    case Limit::workers:
      return ranks * std::max(workers, 1) / worker_seconds(model);
    case Limit::cores: {
      // Without workers one thread does all: the CPU time is in the time that a sample takes.
      const double cpu = model.worker_cpu ? *model.worker_cpu + (workers > 0 ? model.process_cpu : 0) : 0;
      return cpu > 0 ? cores / cpu : no_limit;
    }
    case Limit::process: {
      const double longest = std::max({model.take_over, model.thread_cpu, model.process_cpu - model.thread_cpu});
      return workers > 0 && longest > 0 ? ranks / longest : no_limit;
    }
  }
  return no_limit;
}

/// What measured points say of the law of one limit.
struct Correction {
  double factor = 1;
  double error = 0;
};

struct Known {
  int workers = 0;
  PrepLaw law;
  Correction of_law;

  [[nodiscard]] double rate() const { return law.rate * of_law.factor; }
};

/// Of all points with workers, or of those without, workers rising. A point of a drain too short to be sure of counts together with the one before
/// it, by their errors: as if the law could change so much from one to the next.
std::vector<Known> known_points(const TrainingModel& model, bool with_workers) {
  constexpr double unsure = 0.05;
  std::vector<Known> points;
  for (const TrainingModel::Point& point : model.prep) {
    if ((point.workers > 0) != with_workers) continue;
    const PrepLaw law = prep_law(model, point.workers, model.cores);
    Known known{point.workers, law, {point.samples_per_s / law.rate, point.error}};
    if (known.of_law.error > unsure && with_workers && !points.empty() && points.back().law.limit == law.limit) {
      const double before = std::pow(std::hypot(unsure, points.back().of_law.error), -2);
      const double own = std::pow(known.of_law.error, -2);
      known.of_law.factor = (own * known.of_law.factor + before * points.back().of_law.factor) / (own + before);
      known.of_law.error = 1 / std::sqrt(own + before);
    }
    points.push_back(known);
  }
  return points;
}

/// What is known of one limit at a number of workers on the cores that were measured.
struct Knot {
  double workers = 0;
  double rate = 0;
  Correction of_law;
};

/// Straight between two knots: over the workers where their number is the limit, else over its logarithm, so that the rate is never beyond both.
/// Beyond the last knot, and before the first, the correction stays. Between two of them, and beyond the last, what is not known is how much it
/// changes.
Correction between(const std::vector<Knot>& knots, double workers, Limit limit, double law) {
  const auto after = std::ranges::find_if(knots, [&](const Knot& knot) { return knot.workers >= workers; });
  if (after == knots.end()) {
    const Correction& last = knots.back().of_law;
    return {last.factor, std::hypot(last.error, std::abs(last.factor - knots.front().of_law.factor) / 2)};
  }
  if (after == knots.begin() || after->workers == workers) return after->of_law;
  const auto before = after - 1;
  const double part = limit == Limit::workers ? (workers - before->workers) / (after->workers - before->workers)
                                              : std::log(workers / before->workers) / std::log(after->workers / before->workers);
  return {std::lerp(before->rate, after->rate, part) / law,
          std::hypot(std::max(before->of_law.error, after->of_law.error), std::abs(after->of_law.factor - before->of_law.factor) / 2)};
}

/// What is known of a limit at each point. Where it is the lowest, or hardly above that, the point says how far off the law is. Elsewhere it is what
/// those say, and no less than what was measured in spite of it.
std::vector<Knot> knots_of(const TrainingModel& model, const std::vector<Known>& points, Limit limit, double workers) {
  std::vector<Knot> measured;
  for (const Known& point : points) {
    const double law = law_of(model, limit, point.workers, model.cores);
    if (law <= hardly_above * point.law.rate) measured.push_back({static_cast<double>(point.workers), point.of_law.factor * law, point.of_law});
  }
  if (measured.empty()) {
    // The nearest point says at least how far the law of another limit was off.
    const Known& nearest = *std::ranges::min_element(points, {}, [workers](const Known& point) { return std::abs(point.workers - workers); });
    const double factor = nearest.of_law.factor;
    const auto at = static_cast<double>(nearest.workers);
    measured.push_back(
        {at, factor * law_of(model, limit, nearest.workers, model.cores), {factor, std::hypot(nearest.of_law.error, std::abs(factor - 1) / 2)}});
  }
  std::vector<Knot> knots;
  for (const Known& point : points) {
    const auto at = static_cast<double>(point.workers);
    const double law = law_of(model, limit, point.workers, model.cores);
    Correction known = between(measured, at, limit, law);
    if (point.rate() > known.factor * law) known = {point.rate() / law, point.of_law.error};
    knots.push_back({at, known.factor * law, known});
  }
  // More workers make none slower unless that was measured.
  for (std::size_t at = knots.size(); at-- > 1;) {
    Knot& before = knots[at - 1];
    const double most = std::max(points[at - 1].rate(), knots[at].rate);
    if (before.rate <= most) continue;
    before.of_law.factor *= most / before.rate;
    before.rate = most;
  }
  return knots;
}

/// Of workers on so many cores, what one limit lets them supply. Where the cores are it, what counts is how many workers share one.
PrepRate limited_by(const TrainingModel& model, const std::vector<Known>& points, Limit limit, int workers, double cores) {
  const double law = law_of(model, limit, workers, cores);
  if (law == no_limit) return {law, 0, limit};
  if (points.empty()) {
    double error = 0;
    for (const TrainingModel::Point& point : model.prep) error = std::max(error, point.error);
    return {law, workers == 0 ? std::hypot(error, in_process_error) : error, limit};
  }
  const double sharing = limit == Limit::cores && workers > 0 ? std::max(workers * model.cores / cores, 1.0) : workers;
  const double law_here = limit == Limit::cores ? law * model.cores / cores : law;
  const Correction correction = between(knots_of(model, points, limit, sharing), sharing, limit, law_here);
  return {law * correction.factor, correction.error, limit, limit == Limit::cores ? correction.factor : 1};
}

}  // namespace

PrepLaw prep_law(const TrainingModel& model, int workers, double cores) {
  PrepLaw lowest{no_limit};
  for (const Limit limit : limits)
    if (const double rate = law_of(model, limit, workers, cores); rate < lowest.rate) lowest = {rate, limit};
  return lowest;
}

PrepRate prep_from_memory(const TrainingModel& model, int workers, double cores) {
  const std::vector<Known> points = known_points(model, workers > 0);
  const double beside_steps = workers > 0 ? model.beside_steps * prep_factor(model, cores) : 1;
  const auto rate_of = [&](Limit limit) {
    PrepRate rate = limited_by(model, points, limit, workers, cores);
    if (limit == Limit::cores && beside_steps != 1) {
      rate.rate *= beside_steps;
      rate.error = std::hypot(rate.error, model.beside_steps_error, prep_factor_error(model, cores));
    }
    return rate;
  };
  const PrepLaw law = prep_law(model, workers, cores);
  PrepRate lowest = rate_of(law.limit);
  for (const Limit limit : limits)
    if (const PrepRate rate = rate_of(limit); rate.rate < (1 - rounding) * lowest.rate) lowest = rate;
  // What points with more workers a core say of the law is not true of workers that have one each.
  const bool by_cores = law_of(model, Limit::cores, workers, cores) <= hardly_above * law.rate;
  lowest.of_cores = (by_cores ? limited_by(model, points, Limit::cores, workers, cores).of_cores : 1) * beside_steps;
  return lowest;
}

}  // namespace dsanalyze
