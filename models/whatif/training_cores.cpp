#include "training_cores.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

/// What is further off is no correction.
constexpr double most_corrected = 1.25;

double corrected_by(double factor) { return std::clamp(factor, 1 / most_corrected, most_corrected); }

}  // namespace

void learn_from_found(TrainingModel& model) {
  if (model.workers < 1 || !model.worker_cpu || model.found <= 0 || model.waits_for_storage || model.crowded || model.disturbed) return;
  TrainingModel from_memory = model;
  from_memory.storage.reset();
  const TrainingRates by_law = rates_of(from_memory, {});
  constexpr double clearly = 1.056;  // Rates that differ by less hold each other up.
  const bool prep_limits = by_law.prep_limit == TrainingRates::Limit::cores && by_law.bottleneck == "cpu";
  if (!prep_limits || by_law.ingestion < clearly * by_law.prep || by_law.ci95_prep.overlaps(by_law.ci95_ingestion)) return;
  const double pause = model.pause_seconds / model.step_samples;
  const double lasted = 1 / model.found - pause;
  if (lasted <= 0) return;
  model.beside_steps = corrected_by((1 / by_law.samples_per_s - pause) / lasted);
  model.beside_steps_error = std::clamp((model.ci95_found.high - model.ci95_found.low) / 2 / model.found, 0.0, 1.0);
}

double prep_factor(const TrainingModel& model, double cores) {
  if (!model.fewer_cores || cores >= model.cores) return 1;
  const double part = std::log(model.cores / cores) / std::log(model.cores / model.fewer_cores->cores);
  return std::pow(model.fewer_cores->prep_factor, std::min(part, 1.0));
}

void learn_from_fewer_cores(TrainingModel& model, const FewerCoresRecord& measured) {
  if (model.workers < 1 || !model.worker_cpu || measured.samples_per_s <= 0 || measured.cores < 1 || measured.cores >= model.cores) return;
  TrainingModel::FewerCores fewer;
  fewer.cores = measured.cores;
  TrainingModel from_memory = model;  // It ran a few seconds, of data that had been read before.
  from_memory.storage.reset();
  const auto predicted = [&](double taken) {
    from_memory.fewer_cores = {fewer.cores, taken, 1};
    return rates_of(from_memory, {.cores = fewer.cores});
  };
  const TrainingRates by_law = predicted(1);
  if (by_law.prep < by_law.ingestion) {
    if (by_law.prep_limit != TrainingRates::Limit::cores) return;
    fewer.prep_factor = corrected_by(measured.samples_per_s / by_law.samples_per_s);
    model.fewer_cores = fewer;
    return;
  }
  constexpr double whole_slice = 1.6;
  // Where enough cores are left that nothing is taken, or something else holds steps up for longer, the rate says nothing of it.
  constexpr double clearly = 2;
  const Interval& interval = measured.ci95_samples_per_s;
  if (predicted(0).samples_per_s - predicted(whole_slice).samples_per_s <= clearly * (interval.high - interval.low) / 2) return;
  constexpr int halvings = 20;
  double low = 0;
  double high = whole_slice;
  for (int halving = 0; halving < halvings; ++halving) {
    const double middle = (low + high) / 2;
    (predicted(middle).samples_per_s > measured.samples_per_s ? low : high) = middle;
  }
  fewer.taken_factor = (low + high) / 2;
  model.fewer_cores = fewer;
}

}  // namespace dsanalyze
