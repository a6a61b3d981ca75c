#include "training_delivery.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "training_cores.hpp"
#include "training_supply.hpp"

namespace dsanalyze {
namespace {

/// Cores that the workers use at a rate.
double used_by_workers(const TrainingModel& model, double rate) { return rate * model.worker_cpu.value_or(worker_seconds(model)); }

/// How far the workers use up the cores that the training process leaves them, 0 to 1: measured with two and three workers on two cores, what a step
/// waits for them begins to grow when they use 0.7 to 0.9 of a core, and is all that busy workers cost from 1.5.
double busy_share(const TrainingModel& model, double cores, double rate) {
  constexpr double below = 0.25;  // in cores
  constexpr double above = 0.5;
  return std::clamp((used_by_workers(model, rate) - (cores - 1) + below) / (below + above), 0.0, 1.0);
}

/// What computing a step takes longer with busy workers of which so many share a core: along the logarithm of that, as each of them has a part of a
/// core that the training process waits for.
double slowed_by(const TrainingModel& model, double sharing) {
  if (model.slowed.empty()) return 0;
  const TrainingModel::Slowed& on_all = model.slowed.front();
  const TrainingModel::Slowed& on_fewer = model.slowed.back();
  if (on_fewer.sharing <= on_all.sharing || sharing <= 0) return on_all.seconds;
  const double doublings = std::log(sharing / on_all.sharing) / std::log(on_fewer.sharing / on_all.sharing);
  // Beyond what was measured each further doubling adds half of the one before: two workers on a core cost a step 4 ms more than one, and four 3 ms
  // more than two.
  const double part = doublings > 1 ? 2 - std::exp2(1 - doublings) : doublings;
  return std::max(std::lerp(on_all.seconds, on_fewer.seconds, part), 0.0);
}

/// What taking a sample over takes while so many workers prepare: along straight lines between the numbers that were measured, workers rising.
/// Nothing: of none it was.
std::optional<double> busy_take_over(const std::vector<TrainingModel::Point>& points, int workers) {
  const TrainingModel::Point* below = nullptr;
  for (const TrainingModel::Point& point : points) {
    if (!point.busy_take_over) continue;
    if (point.workers >= workers) {
      if (below == nullptr || point.workers == workers) return point.busy_take_over;
      const double part = static_cast<double>(workers - below->workers) / (point.workers - below->workers);
      return std::lerp(*below->busy_take_over, *point.busy_take_over, part);
    }
    below = &point;
  }
  return below != nullptr ? below->busy_take_over : std::nullopt;
}

/// What a step loses where taking a sample over takes so long, beside a batch that lies ready while the workers rest.
double late_seconds(const TrainingModel& model, double busy_take_over) {
  return std::max(busy_take_over - model.take_over, 0.0) * model.step_samples / model.ranks;
}

/// On fewer cores, of all numbers of workers together: sixteen batches of each say little.
std::optional<double> busy_take_over_on_fewer(const TrainingModel& model) {
  double sum = 0;
  int measured = 0;
  for (const TrainingModel::Point& point : model.prep_on_fewer) {
    sum += point.busy_take_over.value_or(0);
    measured += point.busy_take_over ? 1 : 0;
  }
  return measured > 0 ? std::optional(sum / measured) : std::nullopt;
}

/// Of a training of one rank whose own steps need little of the cores, what computing a step took longer than with batches at hand on as many cores
/// as its workers used up; mapping a batch is part of taking it over. Nothing where they did not.
std::optional<TrainingModel::Slowed> slowed_on(const TrainingModel& model, double cores, double rate, double compute_seconds) {
  const double share = busy_share(model, cores, rate);
  constexpr double clearly_busy = 0.5;
  const bool computes_elsewhere = model.training_cpu && *model.training_cpu * model.found < least_training_share * model.cores;
  if (model.ranks > 1 || model.workers == 0 || share < clearly_busy || !computes_elsewhere) return std::nullopt;
  const double alone = model.step_samples / model.ingestion - model.outside_seconds;
  const double mapping = std::max(model.take_over - model.thread_cpu, 0.0) * model.step_samples;
  return TrainingModel::Slowed{model.workers / cores, std::max(compute_seconds - alone - mapping, 0.0) / share};
}

}  // namespace

double held_up_seconds(const TrainingModel& model, int workers, double cores, double rate) {
  const auto busy = busy_take_over(model.prep, workers);
  if (workers == 0 || !busy) return 0;
  const double share = busy_share(model, cores, rate);
  const auto slowed = [&](double on_cores) { return slowed_by(model, model.ranks * workers / on_cores); };
  const double as_on_all = share * model.held_up_fraction * (late_seconds(model, *busy) + slowed(model.cores));
  if (cores >= model.cores) return share * model.held_up_fraction * (late_seconds(model, *busy) + slowed(cores));
  // A worker that wakes also takes a core from the training process, for its slice or until its batch is done. Measured on one core, with steps of 5
  // to 40 ms and one to three workers, it was 0.47 to 0.75 of that; 0.1 to 0.45 on another machine, so that profiles measure it.
  constexpr double slice_seconds = 0.003;  // Linux's least, sched(7)
  constexpr double least_taken = 0.5;      // where the core is not busy: each batch wakes a worker
  constexpr double most_taken = 0.65;
  const double slice = std::min(model.worker_cpu.value_or(0) * model.step_samples / model.ranks, slice_seconds);
  const double of_slice = std::clamp(least_taken + 2 * (used_by_workers(model, rate) - (cores - 1)), 0.0, most_taken);
  const double taken = model.fewer_cores ? model.fewer_cores->taken_factor : 1;
  if (const auto there = busy_take_over_on_fewer(model); there && model.slowed.size() > 1) {
    const double part = std::min((model.cores - cores) / (model.cores - model.prep_fewer_cores), 1.0);
    // On a single core the worker that gets the next batch to prepare wakes where the training process goes on, however seldom that is.
    const double met = std::max(share, std::min(2 - cores, 1.0));
    const double on_fewer = met * late_seconds(model, std::max(*there, *busy)) + share * slowed(std::min(cores, model.prep_fewer_cores));
    return std::lerp(as_on_all, std::max(on_fewer + (taken - 1) * of_slice * slice, as_on_all), part);
  }
  return std::max(as_on_all, share * slowed(cores) + std::min(model.cores - cores, 1.0) * taken * of_slice * slice);
}

double held_up_error_seconds(const TrainingModel& model, int workers, double cores, double rate, double longer) {
  if (workers == 0) return 0;
  // Half of how far computing is from where it was measured, on all cores or on fewer, and late batches from those of the training's own workers.
  const bool on_all = cores >= model.cores;
  const double measured = model.slowed.empty() ? 0 : (on_all ? model.slowed.front() : model.slowed.back()).seconds;
  const double slowed = std::abs(slowed_by(model, model.ranks * workers / cores) - measured) / 2;
  const auto late = [&model](int of) { return late_seconds(model, busy_take_over(model.prep, of).value_or(0)); };
  const double later = on_all ? std::abs(late(workers) - late(model.workers)) / 2 : 0;
  const double apart = busy_share(model, cores, rate) * (slowed + later) * (on_all ? model.held_up_fraction : 1);
  // Measured by hand in 22 runs on one core: steps of 5 to 40 ms lost 3.7 to 6.1 ms, 5.0 in the mean.
  constexpr double of_other_lengths = 0.25;
  const double unlike = 1 - std::min(longer, 1 / longer);
  return std::hypot(apart, of_other_lengths * unlike * held_up_seconds(model, workers, cores, rate));
}

double delivery_seconds(const TrainingModel& model, int workers, double cores, double samples_per_s) {
  return workers > 0 ? model.delivery_seconds + held_up_seconds(model, workers, cores, samples_per_s) : 0;
}

std::vector<TrainingModel::Slowed> slowed_of(const TrainingModel& model, const ProfileResult& profile) {
  std::vector<TrainingModel::Slowed> slowed;
  const auto on_all = slowed_on(model, model.cores, model.found, profile.waits->compute.seconds_per_step);
  if (on_all) slowed.push_back(*on_all);
  const auto& fewer = profile.on_fewer_cores;
  if (!fewer || !fewer->compute_seconds_per_step || fewer->samples_per_s <= 0 || fewer->cores >= model.cores) return slowed;
  auto on_fewer = slowed_on(model, fewer->cores, fewer->samples_per_s, *fewer->compute_seconds_per_step);
  if (!on_fewer) return slowed;
  if (slowed.empty()) slowed.push_back({model.workers / model.cores, 0});
  on_fewer->seconds = std::max(on_fewer->seconds, slowed.front().seconds);
  slowed.push_back(*on_fewer);
  return slowed;
}

double steady_delivery_seconds(const TrainingModel& model, int workers, double cores, double prep, double other_seconds) {
  if (workers == 0) return 0;
  const double most = std::min(prep, model.step_samples / (other_seconds + model.delivery_seconds));
  const auto reached = [&](double rate) { return model.step_samples / (other_seconds + delivery_seconds(model, workers, cores, rate)) >= rate; };
  if (reached(most)) return delivery_seconds(model, workers, cores, most);
  constexpr int halvings = 40;
  double low = 0;
  double high = most;
  for (int halving = 0; halving < halvings; ++halving) {
    const double middle = (low + high) / 2;
    (reached(middle) ? low : high) = middle;
  }
  return delivery_seconds(model, workers, cores, low);
}

}  // namespace dsanalyze
