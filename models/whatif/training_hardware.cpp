#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "training_model.hpp"
#include "training_supply.hpp"

namespace dsanalyze {
namespace {

/// P on so many cores with enough workers: of the numbers that bring nearly the most and are not far beyond those measured, the best known.
struct MostPrep {
  double rate = 0;
  double error = 0;
  int workers = 0;
};
MostPrep most_prep(const TrainingModel& from_memory, double cores) {
  constexpr double nearly = 0.98;
  const int most = std::max(
      std::min(static_cast<int>(most_extrapolation) * std::max(from_memory.prep.back().workers, 1), most_moved_workers(from_memory.path.found)), 1);
  std::vector<MostPrep> tried;
  for (int workers = 1; workers <= most; workers = std::max(workers + 1, workers * 5 / 4)) {
    Path path = with_workers(from_memory.path, workers);
    path.cores.count = cores;
    tried.push_back({run(path, path_seed, Pace::drains), path.workers.cpu_seconds.error, workers});
  }
  const double best = std::ranges::max(tried, {}, &MostPrep::rate).rate;
  std::erase_if(tried, [best](const MostPrep& one) { return one.rate < nearly * best; });
  return std::ranges::min(tried, {}, &MostPrep::error);
}

/// As far as a search asks for them.
std::vector<double> asked_cores(double measured) {
  std::vector<double> cores;
  for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0}) cores.push_back(factor * measured);
  return cores;
}

}  // namespace

RateModel hardware_model(const TrainingModel& training) {
  if (training.epoch_unknown) throw UsageError(epoch_unknown_text);
  if (!training.storage)
    throw UsageError(
        "what storage [S] and memory [C] supply to this training is not in the profile (its findings say why), so nothing can be said of other "
        "hardware for it");
  if (!training.worker_cpu)
    throw UsageError("the profile does not say how much CPU time its loader takes, so nothing can be said of other cores: profile the command again");
  // These stay whatever the hardware, which the model of it does not know.
  constexpr double most_left_out = 0.15;
  const double step = training.step_samples / training.ingestion;
  if (const double left_out = training.outside_seconds / step; left_out > most_left_out)
    throw UsageError(
        fmt::format("{:.0f} % of a step lies outside of its computing, which other hardware does not change: ask for "
                    "single changes (--workers, --cores, --cache-size, --storage, --accelerator-speed)",
                    100 * left_out));
  TrainingModel from_memory = training;
  from_memory.storage.reset();
  from_memory.waits_for_storage = false;
  const TrainingModel::Storage& storage = *training.storage;
  const MostPrep prep = most_prep(from_memory, training.cores);
  const TrainingRates found = rates_of(from_memory, {.workers = std::max(training.workers, 1)});

  RateModel model;
  const double supplied = supply(storage.curve, training.ranks * prep.workers);
  // P was measured with the data in memory: reading it from there is in it.
  model.rates = {found.ready, prep.rate, std::numeric_limits<double>::infinity(), supplied};
  model.ingestion_error = training.ingestion_error;
  model.prep_error = prep.error;
  model.storage_error = storage.error;
  model.run_error = training.run_error;
  model.cores = model.measured_cores_high = training.cores;
  std::vector<ScalingPoint> points;
  for (const double cores : asked_cores(training.cores)) {
    const MostPrep there = most_prep(from_memory, cores);
    points.push_back({cores, there.rate, there.error});
  }
  model.scaling = FittedScaling(points, std::numeric_limits<double>::infinity());
  model.accelerators = training.ranks;
  model.batch_size = training.step_samples / training.ranks;
  model.dataset_bytes = storage.dataset_bytes;
  model.dataset_samples = static_cast<std::uint64_t>(
      std::llround(training.epoch_samples.value_or(std::max(static_cast<double>(storage.dataset_bytes) / storage.bytes_per_sample, 1.0))));
  model.request_bytes = storage.bytes_per_sample;
  model.storage_bytes_per_s = supplied * storage.bytes_per_sample;
  model.misses = storage.misses.at(static_cast<std::size_t>(storage.order));
  model.cache_fraction = std::min(static_cast<double>(storage.page_cache_bytes) / static_cast<double>(storage.dataset_bytes), 1.0);
  model.accelerator_shares_cores = training.shares_cores;
  model.enough_workers = true;
  return model;
}

}  // namespace dsanalyze
