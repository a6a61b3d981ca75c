#include "training_prep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "training_cores.hpp"
#include "training_supply.hpp"

namespace dsanalyze {
namespace {

using Limit = TrainingRates::Limit;

constexpr std::array limits{Limit::workers, Limit::cores, Limit::process};  // in the order of their values
constexpr double rounding = 1e-9;

/// What preparing in the training process may differ by from preparing in a worker.
constexpr double in_process_error = 0.1;

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// What the law says of one limit.
double law_of(const TrainingModel& model, Limit limit, double workers, double cores) {
  const double ranks = model.ranks;
  switch (limit) {
    case Limit::workers:
      return ranks * std::max(workers, 1.0) / worker_seconds(model);
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

/// Of all points with workers, or of those without, workers rising. A point of a drain too short to be as sure of as of others counts together with
/// the one before it, by their errors: as if the law could change so much from one to the next.
std::vector<Known> known_points(const TrainingModel& model, bool with_workers) {
  constexpr double unsure = 0.05;
  constexpr double clearly = 1.5;
  double surest = 1;
  for (const TrainingModel::Point& point : model.prep)
    if ((point.workers > 0) == with_workers) surest = std::min(surest, point.error);
  std::vector<Known> points;
  for (const TrainingModel::Point& point : model.prep) {
    if ((point.workers > 0) != with_workers) continue;
    const PrepLaw law = prep_law(model, point.workers, model.cores);
    Known known{point.workers, law, {point.samples_per_s / law.rate, point.error}};
    if (known.of_law.error > std::max(unsure, clearly * surest) && with_workers && !points.empty() && points.back().law.limit == law.limit) {
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

/// Straight between two knots, so that the rate is never beyond both, and no less with more cores. Before the first, the correction stays. Beyond the
/// last, the rate goes on as it rose before, and as the law at most. What is not known is how much the correction changes.
Correction between(const std::vector<Knot>& knots, double workers, double law) {
  const auto after = std::ranges::find_if(knots, [&](const Knot& knot) { return knot.workers >= workers; });
  if (after == knots.begin() || (after != knots.end() && after->workers == workers)) return after->of_law;
  if (after == knots.end()) {
    const Knot& last = knots.back();
    const double unsure = std::hypot(last.of_law.error, std::abs(last.of_law.factor - knots.front().of_law.factor) / 2);
    if (knots.size() < 2) return {last.of_law.factor, unsure};
    const Knot& before = *(knots.end() - 2);
    const double rise = std::max(last.rate - before.rate, 0.0) / (last.workers - before.workers);
    return {std::min(last.of_law.factor, (last.rate + rise * (workers - last.workers)) / law), unsure};
  }
  const auto before = after - 1;
  const double part = (workers - before->workers) / (after->workers - before->workers);
  return {std::lerp(before->rate, after->rate, part) / law,
          std::hypot(std::max(before->of_law.error, after->of_law.error), std::abs(after->of_law.factor - before->of_law.factor) / 2)};
}

/// The lowest of the other limits.
double next_limit(const TrainingModel& model, Limit limit, int workers) {
  double lowest = no_limit;
  for (const Limit other : limits)
    if (other != limit) lowest = std::min(lowest, law_of(model, other, workers, model.cores));
  return lowest;
}

/// What a point says of a limit, if it says anything: all where that is the lowest, and less and less the further it is above that. Which of two
/// limits that are close is the one that the law has wrong is not known.
std::optional<Knot> knot_of(const TrainingModel& model, const Known& point, Limit limit) {
  constexpr double alike = 1.05;
  constexpr double apart = 1.1;
  const double law = law_of(model, limit, point.workers, model.cores);
  const double above = law / point.law.rate;
  if (above >= apart) return std::nullopt;
  const double weight = std::min((apart - above) / (apart - alike), 1.0);
  const double factor = std::lerp(1.0, point.of_law.factor, weight);
  const bool alone = above <= 1 && next_limit(model, limit, point.workers) >= apart * law;
  const double error = alone ? point.of_law.error : std::hypot(point.of_law.error, std::abs(point.of_law.factor - 1) / 2);
  return Knot{static_cast<double>(point.workers), factor * law, {factor, error}};
}

/// What is known of a limit at each point: what the points say where it is the lowest, or close to that, and no less than what was measured in spite
/// of it. Where it never is, the law alone, which the nearest point says to be off as far as that of another limit.
std::vector<Knot> knots_of(const TrainingModel& model, const std::vector<Known>& points, Limit limit, double workers) {
  std::vector<Knot> measured;
  for (const Known& point : points)
    if (const auto knot = knot_of(model, point, limit)) measured.push_back(*knot);
  if (measured.empty()) {
    const Known& nearest = *std::ranges::min_element(points, {}, [workers](const Known& point) { return std::abs(point.workers - workers); });
    const double error = std::hypot(nearest.of_law.error, std::abs(nearest.of_law.factor - 1) / 2);
    measured.push_back({static_cast<double>(nearest.workers), law_of(model, limit, nearest.workers, model.cores), {1, error}});
  }
  std::vector<Knot> knots;
  for (const Known& point : points) {
    const auto at = static_cast<double>(point.workers);
    const double law = law_of(model, limit, point.workers, model.cores);
    Correction known = between(measured, at, law);
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
PrepRate limited_by(const TrainingModel& model, const std::vector<Known>& points, Limit limit, double workers, double cores) {
  const double law = law_of(model, limit, workers, cores);
  if (law == no_limit) return {law, 0, limit};
  if (points.empty()) {
    double error = 0;
    for (const TrainingModel::Point& point : model.prep) error = std::max(error, point.error);
    return {law, workers == 0 ? std::hypot(error, in_process_error) : error, limit};
  }
  const double sharing = limit == Limit::cores && workers > 0 ? std::max(workers * model.cores / cores, 1.0) : workers;
  const double law_here = limit == Limit::cores ? law * model.cores / cores : law;
  const Correction correction = between(knots_of(model, points, limit, sharing), sharing, law_here);
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
  const double beside_steps = workers > 0 ? model.beside_steps : 1;
  std::array<PrepRate, limits.size()> rates;
  std::ranges::transform(limits, rates.begin(), [&](Limit limit) { return limited_by(model, points, limit, workers, cores); });
  PrepRate& by_cores = rates[static_cast<std::size_t>(Limit::cores)];
  by_cores.rate *= beside_steps;
  by_cores.of_cores *= beside_steps;
  by_cores.error = std::hypot(by_cores.error, beside_steps != 1 ? model.beside_steps_error : 0, law_error(model, cores));
  PrepRate lowest = rates[static_cast<std::size_t>(prep_law(model, workers, cores).limit)];
  for (const PrepRate& rate : rates)
    if (rate.rate < (1 - rounding) * lowest.rate) lowest = rate;
  lowest.of_cores = by_cores.of_cores;
  // A point itself is right but for its own interval, whichever limit it tells of.
  const auto point = std::ranges::find(points, workers, &Known::workers);
  if (cores == model.cores && point != points.end())
    lowest.error = std::hypot(point->of_law.error, beside_steps != 1 && lowest.limit == Limit::cores ? model.beside_steps_error : 0);
  return lowest;
}

}  // namespace dsanalyze
