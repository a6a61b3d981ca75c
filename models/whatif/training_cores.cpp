#include "training_cores.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {

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
    constexpr double most = 1.25;
    if (by_law.prep_limit != TrainingRates::Limit::cores) return;
    fewer.prep_factor = std::clamp(measured.samples_per_s / by_law.samples_per_s, 1 / most, most);
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
