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

}  // namespace

double held_up_seconds(const TrainingModel& model, int workers, double cores, double rate) {
  const auto busy = busy_take_over(model.prep, workers);
  if (workers == 0 || !busy) return 0;
  const double share = busy_share(model, cores, rate);
  const double as_on_all = share * model.held_up_fraction * (late_seconds(model, *busy) + model.slowed_seconds);
  if (cores >= model.cores) return as_on_all;
  // A worker that wakes also takes a core from the training process, for its slice or until its batch is done. Measured on one core, with steps of 5
  // to 40 ms and one to three workers, it was 0.47 to 0.75 of that; 0.1 to 0.45 on another machine.
  constexpr double slice_seconds = 0.003;  // Linux's least, sched(7)
  constexpr double least_taken = 0.5;      // where the core is not busy: each batch wakes a worker
  constexpr double most_taken = 0.65;
  const double slice = std::min(model.worker_cpu.value_or(0) * model.step_samples / model.ranks, slice_seconds);
  const double of_slice = std::clamp(least_taken + 2 * (used_by_workers(model, rate) - (cores - 1)), 0.0, most_taken);
  return std::max(as_on_all, share * model.slowed_seconds + std::min(model.cores - cores, 1.0) * of_slice * slice);
}

double held_up_error_seconds(const TrainingModel& model, int workers, double cores, double rate, double longer) {
  if (workers == 0) return 0;
  // Half of how far late batches are from those of the training's own workers.
  const auto late = [&model](int of) { return late_seconds(model, busy_take_over(model.prep, of).value_or(0)); };
  const double later = cores >= model.cores ? std::abs(late(workers) - late(model.workers)) / 2 : 0;
  const double apart = busy_share(model, cores, rate) * model.held_up_fraction * later;
  // Measured by hand in 22 runs on one core: steps of 5 to 40 ms lost 3.7 to 6.1 ms, 5.0 in the mean.
  constexpr double of_other_lengths = 0.25;
  const double unlike = 1 - std::min(longer, 1 / longer);
  return std::hypot(apart, of_other_lengths * unlike * held_up_seconds(model, workers, cores, rate));
}

double delivery_seconds(const TrainingModel& model, int workers, double cores, double samples_per_s) {
  return workers > 0 ? model.delivery_seconds + held_up_seconds(model, workers, cores, samples_per_s) : 0;
}

double slowed_seconds(const TrainingModel& model, const WaitsRecord& waits) {
  const double share = busy_share(model, model.cores, model.found);
  constexpr double clearly_busy = 0.5;
  const bool computes_elsewhere = model.training_cpu && *model.training_cpu * model.found < least_training_share * model.cores;
  if (model.ranks > 1 || model.workers == 0 || share < clearly_busy || !computes_elsewhere) return 0;
  const double alone = model.step_samples / model.ingestion - model.outside_seconds;
  const double mapping = std::max(model.take_over - model.thread_cpu, 0.0) * model.step_samples;
  return std::max(waits.compute.seconds_per_step - alone - mapping, 0.0) / share;
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
