#include "training_prep.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "training_cores.hpp"
#include "training_supply.hpp"

namespace dsanalyze {
namespace {

using Limit = TrainingRates::Limit;

/// What preparing in the training process may differ by from preparing in a worker.
constexpr double in_process_error = 0.1;

struct Correction {
  double factor = 1;
  double error = 0;
};

/// What a measured point says of the law.
struct Known {
  int workers = 0;
  Limit limit = Limit::workers;
  double factor = 1, error = 0;
};

/// Of all points, workers rising. A point of a drain too short to be sure of counts together with the one before it, by their errors: as if the law
/// could change so much from one to the next.
std::vector<Known> known_points(const TrainingModel& model) {
  constexpr double unsure = 0.05;
  std::vector<Known> points;
  for (const TrainingModel::Point& point : model.prep) {
    const PrepLaw law = prep_law(model, point.workers, model.cores);
    Known known{point.workers, law.limit, point.samples_per_s / law.rate, point.error};
    if (known.error > unsure && !points.empty() && points.back().workers > 0 && points.back().limit == known.limit) {
      const double before = std::pow(std::hypot(unsure, points.back().error), -2);
      const double own = std::pow(known.error, -2);
      known.factor = (own * known.factor + before * points.back().factor) / (own + before);
      known.error = 1 / std::sqrt(own + before);
    }
    points.push_back(known);
  }
  return points;
}

/// What the measured points say of the law where `limit` holds. A point itself is right but for its own interval; elsewhere the correction, and how
/// much it changes from point to point, is what the law does not know. Where the cores limit P, what counts is how many workers share one.
Correction correction(const TrainingModel& model, int asked, double cores, Limit limit) {
  const double workers = limit == Limit::cores && asked > 0 ? std::max(asked * model.cores / cores, 1.0) : asked;
  std::vector<Known> points;
  std::optional<Known> nearest;  // whatever limits it
  for (const Known& known : known_points(model)) {
    if ((known.workers == 0) != (asked == 0)) continue;
    if (cores == model.cores && known.workers == asked && known.limit == limit) return {known.factor, known.error};
    if (known.limit == limit) points.push_back(known);
    if (!nearest || std::abs(known.workers - asked) < std::abs(nearest->workers - asked)) nearest = known;
  }
  if (points.empty() && nearest) return {nearest->factor, std::hypot(nearest->error, std::abs(nearest->factor - 1) / 2)};
  if (points.empty()) {
    double error = 0;
    for (const TrainingModel::Point& point : model.prep) error = std::max(error, point.error);
    return {1, asked == 0 ? std::hypot(error, in_process_error) : error};
  }
  const auto after = std::ranges::find_if(points, [&](const Known& point) { return point.workers >= workers; });
  if (after == points.end())
    return {points.back().factor, std::hypot(points.back().error, std::abs(points.back().factor - points.front().factor) / 2)};
  if (after == points.begin() || after->workers == workers) return {after->factor, after->error};
  const auto before = after - 1;
  const double part = std::log(workers / before->workers) / std::log(static_cast<double>(after->workers) / before->workers);
  return {before->factor + part * (after->factor - before->factor),
          std::hypot(std::max(before->error, after->error), std::abs(after->factor - before->factor) / 2)};
}

}  // namespace

PrepLaw prep_law(const TrainingModel& model, int workers, double cores) {
  const double ranks = model.ranks;
  PrepLaw law{ranks * std::max(workers, 1) / worker_seconds(model), Limit::workers};
  const auto take = [&law](double rate, Limit limit) {
    if (rate < law.rate) law = {rate, limit};
  };
  // Without workers one thread does all: the CPU time is in the time that a sample takes.
  if (model.worker_cpu && workers > 0 && *model.worker_cpu + model.process_cpu > 0)
    take(cores / (*model.worker_cpu + model.process_cpu), Limit::cores);
  if (model.worker_cpu && workers == 0 && *model.worker_cpu > 0) take(cores / *model.worker_cpu, Limit::cores);
  const double longest = std::max({model.take_over, model.thread_cpu, model.process_cpu - model.thread_cpu});
  if (workers > 0 && longest > 0) take(ranks / longest, Limit::process);
  return law;
}

/// P by the law and what was measured. What is known of workers that nothing else limits bounds it: more cores are never slower. What is known of
/// cores that training needs, too, bounds it as well: fewer workers are never faster.
PrepRate prep_from_memory(const TrainingModel& model, int workers, double cores) {
  const PrepLaw law = prep_law(model, workers, cores);
  const Correction corrected = correction(model, workers, cores, law.limit);
  PrepRate prep{law.rate * corrected.factor, corrected.error, law.limit, law.limit == Limit::cores ? corrected.factor : 1};
  if (workers == 0) return prep;
  const double beside_steps = model.beside_steps * prep_factor(model, cores);
  if (beside_steps != 1 && model.worker_cpu && *model.worker_cpu + model.process_cpu > 0) {
    // What points with more workers a core say of the law is not true of workers that have one each.
    const Correction of_cores = law.limit == Limit::cores ? corrected : Correction{1, corrected.error};
    prep.of_cores = of_cores.factor * beside_steps;
    const double by_cores = cores / (*model.worker_cpu + model.process_cpu) * prep.of_cores;
    if (law.limit == Limit::cores || by_cores < prep.rate)
      prep = {by_cores, std::hypot(of_cores.error, model.beside_steps_error, prep_factor_error(model, cores)), Limit::cores, prep.of_cores};
  }
  if ((cores == model.cores && beside_steps <= 1) || prep.limit == Limit::workers) return prep;
  const double alone = static_cast<double>(model.ranks) * workers / worker_seconds(model);
  const Correction of_workers = correction(model, workers, cores, Limit::workers);
  if (alone * of_workers.factor < prep.rate)
    prep = {alone * of_workers.factor, std::max(corrected.error, of_workers.error), Limit::workers, prep.of_cores};
  return prep;
}

}  // namespace dsanalyze
