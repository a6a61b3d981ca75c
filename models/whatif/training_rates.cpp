#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "training_model.hpp"
#include "training_supply.hpp"
#include "whatif_parts.hpp"

namespace dsanalyze {
namespace {

Path changed(const TrainingModel& model, const TrainingChange& change) {
  const int workers = change.workers.value_or(model.workers);
  require_moved(model.path.found, workers);
  Path path = with_workers(model.path, workers);
  path.cores.count = change.cores.value_or(model.cores);
  path.steps.speed = change.speed.value_or(1);
  if (!model.storage) return path;
  const TrainingModel::Storage& storage = *model.storage;
  ChangedSupply supplied = changed_supply(storage, change);
  path.storage.curve = std::move(supplied.curve);
  path.storage.most = supplied.most;
  path.storage.error = storage.error;
  path.storage.miss_fraction = miss_fraction_of(model, change);
  return path;
}

/// The measured values as they may be, too.
Path drawn(Path path, std::uint64_t number) {
  if (number == 0) return path;
  RandomStream random(path_seed * 1'000'003 + number);
  constexpr double least = 0.05;  // of a time: a judgement; nothing takes none
  const double of_half_width = 1 / normal_quantile(0.975);
  const auto factor = [&](double error) { return std::max(1 + random.normal() * error * of_half_width, least); };
  const double prep = factor(path.workers.cpu_seconds.error);
  path.workers.cpu_seconds.value *= prep;
  path.workers.other_seconds.value *= prep;
  const double steps = factor(path.steps.seconds.error);
  path.steps.seconds.value *= steps;
  path.steps.host_seconds *= steps;
  const double storage = factor(path.storage.error);
  for (SupplyPoint& point : path.storage.curve) point.samples_per_s *= storage;
  return path;
}

struct Doubled {
  const char* resource;
  const char* detail;
  Path (*path)(Path path);
};

constexpr std::array doubled_stations{
    Doubled{"gpu", "accelerator",
            [](Path path) {
              path.steps.seconds.value /= 2;
              path.steps.host_seconds /= 2;
              return path;
            }},
    Doubled{"cpu", "prep",
            [](Path path) {
              path.workers.cpu_seconds.value /= 2;
              path.workers.other_seconds.value /= 2;
              return path;
            }},
    Doubled{"io", "storage",
            [](Path path) {
              for (SupplyPoint& point : path.storage.curve) point.samples_per_s *= 2;
              path.storage.most *= 2;
              return path;
            }},
    Doubled{"cpu", "delivery",
            [](Path path) {
              path.handover.cpu_seconds /= 2;
              path.handover.other_seconds /= 2;
              return path;
            }},
    Doubled{"cpu", "cores",
            [](Path path) {
              path.cores.count *= 2;
              return path;
            }},
};

/// The station whose doubling raises the rate most; `clear`: by more than the next does, of those that are no cores.
std::size_t bottleneck_of(const Path& path, std::uint64_t number, bool* clear) {
  std::array<double, doubled_stations.size()> gains{};
  const double rate = run(path, path_seed + number);
  for (std::size_t at = 0; at < doubled_stations.size(); ++at) gains[at] = run(doubled_stations[at].path(path), path_seed + number) / rate;
  constexpr double more_cores = 1.05;  // a judgement: that much more have cores to gain, to be named. Faster prep needs fewer cores, too.
  gains.back() /= more_cores;
  const auto most = static_cast<std::size_t>(std::ranges::max_element(gains) - gains.begin());
  if (clear != nullptr) {
    constexpr double hardly = 0.02;  // of the rate: runs of other seeds differ by as much
    *clear = true;
    for (std::size_t at = 0; at < gains.size(); ++at)
      if (at != most && at + 1 != gains.size() && gains[at] > gains[most] - hardly) *clear = false;
  }
  return most;
}

/// Which part of a station it is.
const char* detail_of(std::size_t station, const Path& path) {
  constexpr double hardly_busy = 0.3;  // of a sample's time: a judgement
  const std::string_view detail = doubled_stations.at(station).detail;
  const double computes = path.workers.cpu_seconds.value / path.workers.threads;
  if (detail == "prep" && computes < hardly_busy * (computes + path.workers.other_seconds.value)) return "latency";
  if (detail == "accelerator" && path.steps.host_seconds > step_seconds(path.steps) - path.steps.host_seconds && !path.steps.threads_scale)
    return path.steps.threads * path.steps.seconds.value < path.steps.host_seconds / 2 ? "outside" : "accelerator";
  return doubled_stations.at(station).detail;
}

void require_possible(const TrainingModel& model, const TrainingChange& change) {
  if (change.workers.value_or(0) < 0) throw UsageError(fmt::format("--workers: found {}, expected 0 or more", *change.workers));
  whatif::require_positive(change.cores.value_or(1), "--cores");
  if (!(change.speed.value_or(1) > 0)) throw UsageError("--accelerator-speed: expected a factor above 0");
  if (change.cores && !model.worker_cpu)
    throw UsageError("--cores: the profile does not say how much CPU time its loader takes (an older dsanalyze made it): profile the command again");
}

Interval around(double value, double error) { return {value * std::max(1 - error, 0.0), value * (1 + error)}; }

/// P as it was measured of so many workers; nothing where they have other cores.
const TrainingModel::Point* drained_with(const TrainingModel& model, const Path& path) {
  const auto point = std::ranges::find(model.prep, path.workers.count, &TrainingModel::Point::workers);
  return point != model.prep.end() && path.cores.count == model.cores ? &*point : nullptr;
}

/// P and G, and what the loader and the training reach without each other.
void take_stations(const TrainingModel& model, const Path& path, TrainingRates& rates) {
  const double error = std::hypot(path.workers.cpu_seconds.error, model.run_error);
  rates.delivered = run(path, path_seed, Pace::drains);
  rates.ci95_delivered = around(rates.delivered, error);
  Path in_memory = path;
  in_memory.storage.miss_fraction = 0;
  const TrainingModel::Point* const drained = drained_with(model, path);
  rates.prep = drained != nullptr ? drained->samples_per_s : run(in_memory, path_seed, Pace::drains);
  rates.ci95_prep = around(rates.prep, drained != nullptr ? std::hypot(drained->error, model.run_error) : error);
  rates.ingestion = path.steps.samples * path.ranks / step_seconds(path.steps);
  const double handed_over = path.workers.count > 0 ? path.handover.cpu_seconds + path.handover.other_seconds : 0;
  const double step = path.steps.goes_ahead ? std::max(step_seconds(path.steps), handed_over) : step_seconds(path.steps) + handed_over;
  rates.ready = path.steps.samples * path.ranks / step;
  rates.ci95_ready = around(rates.ready, std::hypot(path.steps.seconds.error, model.run_error));
}

/// What storage supplies is known of the training as found alone.
void limit_to_found(const TrainingModel& model, int workers, TrainingRates& rates) {
  if (workers <= model.workers) rates.samples_per_s = std::min(rates.samples_per_s, model.found);
  rates.ci95.low = std::min({rates.ci95.low, model.ci95_found.low, rates.samples_per_s});
  rates.too_close = true;
  if (rates.samples_per_s == model.found) rates.bottleneck = "io", rates.detail = "storage";
}

}  // namespace

double miss_fraction_of(const TrainingModel& model, const TrainingChange& change) {
  if (!model.storage) return 0;
  const TrainingModel::Storage& storage = *model.storage;
  const double here = static_cast<double>(storage.page_cache_bytes) / static_cast<double>(storage.dataset_bytes);
  return storage.misses.at(static_cast<std::size_t>(change.order.value_or(storage.order))).storage_share(change.cached.value_or(here));
}

TrainingReached reached(const TrainingModel& model, const TrainingChange& change) {
  require_possible(model, change);
  const Path path = changed(model, change);
  return {run(path, path_seed), doubled_stations.at(bottleneck_of(path, 0, nullptr)).resource};
}

TrainingRates rates_of(const TrainingModel& model, const TrainingChange& change) {
  require_possible(model, change);
  TrainingRates rates;
  const Path path = changed(model, change);
  rates.miss_fraction = path.storage.miss_fraction;
  constexpr std::uint64_t draws = 32;
  std::vector<double> values;
  for (std::uint64_t number = 0; number < draws; ++number) values.push_back(run(drawn(path, number), path_seed + number));
  if (!std::ranges::all_of(values, [](double value) { return value > 0 && std::isfinite(value); }))
    throw UsageError("the profile's times make no rate: profile the command again");
  // Of 32 draws the lowest and the highest have 94 % between them.
  const auto [lowest, highest] = std::ranges::minmax(values);
  rates.samples_per_s = median(values);
  const double elsewhere = rates.samples_per_s * std::hypot(model.path.unexplained, model.run_error);
  rates.ci95 = {std::max(rates.samples_per_s - std::hypot(rates.samples_per_s - lowest, elsewhere), 0.0),
                rates.samples_per_s + std::hypot(highest - rates.samples_per_s, elsewhere)};
  rates.from_memory = rates.samples_per_s;
  if (path.storage.miss_fraction > 0) {
    Path in_memory = path;
    in_memory.storage.miss_fraction = 0;
    rates.from_memory *= run(in_memory, path_seed) / values.front();
  }
  take_stations(model, path, rates);
  if (!path.storage.curve.empty())
    rates.storage = std::min(supply(path.storage.curve, path.ranks * std::max(path.workers.count, 1)), path.storage.most);
  bool clear = true;
  const std::size_t bottleneck = bottleneck_of(path, 0, &clear);
  rates.bottleneck = doubled_stations.at(bottleneck).resource;
  rates.detail = detail_of(bottleneck, path);
  rates.too_close = !clear || model.disturbed;
  constexpr std::uint64_t looks = 4;  // draws, of which each costs six runs
  for (std::uint64_t number = 1; number <= looks; ++number)
    rates.too_close |= std::string_view(doubled_stations.at(bottleneck_of(drawn(path, number), number, nullptr)).resource) != rates.bottleneck;
  if (model.waits_for_storage && !model.storage) limit_to_found(model, path.workers.count, rates);
  const int most = std::max(model.prep.back().workers, 1);
  rates.extrapolation = std::max({1.0, static_cast<double>(path.workers.count) / most, path.cores.count / model.cores, path.steps.speed});
  return rates;
}

TrainingModel with_less_cpu(const TrainingModel& model, double fraction) {
  constexpr double most = 0.99;  // a sample is never free
  TrainingModel less = model;
  for (TrainingPath::Need& need : less.path.needs) need.cpu_seconds.value *= 1 - std::min(fraction, most);
  return less;
}

}  // namespace dsanalyze
