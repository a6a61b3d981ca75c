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
  TrainingModel::FewerCores& fewer = model.fewer_cores.emplace();
  fewer.cores = measured.cores;
  const auto predicted = [&](double taken) {
    fewer.taken_factor = taken;
    return rates_of(model, {.cores = fewer.cores});
  };
  const TrainingRates by_law = predicted(1);
  if (by_law.prep < by_law.ingestion) {
    constexpr double most = 1.25;
    if (by_law.prep_limit == TrainingRates::Limit::cores)
      fewer.prep_factor = std::clamp(measured.samples_per_s / by_law.samples_per_s, 1 / most, most);
    return;
  }
  constexpr double whole_slice = 1.6;
  constexpr int halvings = 20;
  double low = 0;
  double high = whole_slice;
  for (int halving = 0; halving < halvings; ++halving) {
    const double middle = (low + high) / 2;
    (predicted(middle).samples_per_s > measured.samples_per_s ? low : high) = middle;
  }
  fewer.taken_factor = (low + high) / 2;
}

}  // namespace dsanalyze
