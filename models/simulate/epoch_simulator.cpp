#include "epoch_simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "epoch_loader.hpp"

namespace dsanalyze {
namespace {

using namespace simulation;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// What the accelerators saw of one epoch.
struct EpochRecord {
  Nanoseconds end = 0;
  Nanoseconds boundary_stall = 0;
  std::vector<double> stalls;
};

struct Recorded {
  std::vector<EpochRecord> epochs;
  std::vector<LoaderStage::EpochCounts> counts;
  Nanoseconds first_batch = never;
  double storage_busy = 0, prep_busy = 0, accelerator_busy = 0;
};

Recorded run(const EpochSetup& setup, Held held) {
  LoaderStage loader(setup, held);
  TrainingLoop training(setup.accelerators);
  Recorded recorded;
  std::vector<TrainedBatch> started;
  const bool lockstep = setup.accelerators.step == StepMode::lockstep;
  const std::uint64_t first_batches = lockstep ? 1 : setup.accelerators.count;
  for (Nanoseconds now = 0;; now = std::min(loader.next_event(), training.next_event())) {
    loader.run(now);
    training.run(loader, now, started);
    for (const TrainedBatch& batch : started) {
      if (recorded.epochs.size() <= batch.epoch) {
        recorded.epochs.resize(batch.epoch + 1);
        recorded.epochs.back().stalls.reserve(setup.samples / setup.batch_size + setup.accelerators.count);
      }
      EpochRecord& epoch = recorded.epochs[batch.epoch];
      epoch.end = std::max(epoch.end, batch.end);
      epoch.stalls.push_back(to_seconds(batch.stall));
      if (batch.place < first_batches) epoch.boundary_stall = std::max(epoch.boundary_stall, batch.stall);
      if (recorded.first_batch == never) recorded.first_batch = batch.ready;
    }
    started.clear();
    if (training.done()) break;
  }
  // Independent accelerators may end a short epoch's batches before a long one of the epoch before.
  for (std::size_t i = 1; i < recorded.epochs.size(); ++i) recorded.epochs[i].end = std::max(recorded.epochs[i].end, recorded.epochs[i - 1].end);
  recorded.counts.assign(loader.counts().begin(), loader.counts().end());
  const double seconds = to_seconds(recorded.epochs.back().end);
  if (seconds > 0) {
    recorded.storage_busy = std::min(1.0, loader.storage_busy_seconds() / seconds);
    recorded.prep_busy = std::min(1.0, loader.prep().busy_seconds() / static_cast<double>(loader.prep().cores()) / seconds);
    recorded.accelerator_busy = std::min(1.0, training.accelerators().busy_seconds() / training.accelerators().count() / seconds);
  }
  return recorded;
}

double rate_of(double samples, double seconds) { return seconds > 0 ? samples / seconds : infinite; }

/// Epochs [first, end) as one.
SimulatedEpoch summary(const Recorded& recorded, std::uint32_t accelerators, std::size_t first, std::size_t end) {
  SimulatedEpoch sum;
  std::vector<double> stalls;
  double samples = 0;
  const std::uint64_t number = std::max<std::uint64_t>(end - first, 1);
  const auto count = static_cast<double>(number);
  for (std::size_t i = first; i < end; ++i) {
    const EpochRecord& epoch = recorded.epochs[i];
    stalls.insert(stalls.end(), epoch.stalls.begin(), epoch.stalls.end());
    sum.boundary_stall_seconds += to_seconds(epoch.boundary_stall) / count;
    sum.hits += recorded.counts[i].hits;
    sum.misses += recorded.counts[i].misses;
    sum.storage_bytes += recorded.counts[i].storage_bytes;
    samples += static_cast<double>(recorded.counts[i].samples);
  }
  const double seconds = to_seconds(recorded.epochs[end - 1].end - (first > 0 ? recorded.epochs[first - 1].end : 0));
  sum.seconds = seconds / count;
  sum.samples_per_s = rate_of(samples, seconds);
  for (const double stall : stalls) sum.stall_seconds += stall / accelerators / count;
  std::ranges::sort(stalls);
  sum.stall_p50_seconds = quantile(stalls, 0.5);
  sum.stall_p99_seconds = quantile(stalls, 0.99);
  sum.hits /= number;
  sum.misses /= number;
  sum.storage_bytes /= number;
  return sum;
}

/// Without the first epoch, which fills the cache and the queues, and the last, which need prepare nothing of a next one.
SimulatedEpoch steady_state(const Recorded& recorded, std::uint32_t accelerators) {
  const std::size_t count = recorded.epochs.size();
  return summary(recorded, accelerators, count > 1 ? 1 : 0, count > 2 ? count - 1 : count);
}

/// Of a configuration with some stages taken out. Where an epoch begins and ends is uncertain by what lies in the queues, so short epochs are
/// repeated where all are alike.
double steady_rate(EpochSetup setup, Held held) {
  constexpr std::uint32_t enough_samples = 30'000;
  if (held == Held::everything) setup.epochs = 3 + enough_samples / setup.samples;
  return steady_state(run(setup, held), setup.accelerators.count).samples_per_s;
}

/// G: steps one after another, the short last one of an epoch too.
double ingestion_of(const EpochSetup& setup) {
  const SimulatedAccelerators& accelerators = setup.accelerators;
  if (accelerators.samples_per_s <= 0) return infinite;
  if (accelerators.step == StepMode::independent) return accelerators.samples_per_s * accelerators.count;
  const std::uint64_t step = std::uint64_t{setup.batch_size} * accelerators.count;
  const std::uint64_t whole_steps = setup.samples / step;
  const std::uint64_t last = setup.samples % step;
  const std::uint64_t largest_of_last = (last + accelerators.count - 1) / accelerators.count;
  const double seconds = static_cast<double>(whole_steps * setup.batch_size + largest_of_last) / accelerators.samples_per_s;
  return setup.samples / seconds;
}

}  // namespace

EpochSimulation simulate_epochs(const EpochSetup& setup) {
  setup.validate();
  const Recorded recorded = run(setup, Held::as_set);
  EpochSimulation result;
  for (std::size_t i = 0; i < recorded.epochs.size(); ++i) result.epochs.push_back(summary(recorded, setup.accelerators.count, i, i + 1));
  result.steady = steady_state(recorded, setup.accelerators.count);
  result.first_batch_seconds = to_seconds(recorded.first_batch);
  result.storage_busy = recorded.storage_busy;
  result.prep_busy = recorded.prep_busy;
  result.accelerator_busy = recorded.accelerator_busy;
  return result;
}

SimulatedVerdict simulate_verdict(const EpochSetup& setup, const EpochSimulation& full, double least_difference) {
  setup.validate();
  SimulatedVerdict verdict;
  verdict.full = full.steady.samples_per_s;
  verdict.ingestion = ingestion_of(setup);

  EpochSetup alone = setup;
  verdict.cached = steady_rate(alone, Held::everything);
  alone.accelerators.samples_per_s = 0;
  verdict.prep = steady_rate(alone, Held::everything);
  alone = setup;
  alone.accelerators.samples_per_s = 0;
  alone.prep.seconds_per_sample = {};
  verdict.fetch = steady_rate(alone, Held::as_set);

  verdict.rule = bottleneck(verdict.fetch, verdict.prep, verdict.ingestion);
  verdict.too_close = verdict.rule.next_samples_per_s < verdict.rule.samples_per_s * (1 + least_difference);
  // What is measured cannot be faster than with less to do; a simulated difference below 0 is none.
  const double compute = 1 / verdict.ingestion;
  const double cached = std::max(compute, 1 / verdict.cached);
  const double everything = std::max(cached, 1 / verdict.full);
  if (everything > 0) verdict.stalls = {compute / everything, (cached - compute) / everything, (everything - cached) / everything};
  return verdict;
}

namespace {

constexpr std::uint64_t most_batches = 100'000'000;
constexpr std::uint32_t most_lanes = 65'536;
constexpr std::uint32_t most_slots = 1'000'000;

[[noreturn]] void refuse(std::string_view field, const std::string& what) { throw UsageError(fmt::format("epoch simulator: {}: {}", field, what)); }

template <typename Integer>
void require_count(std::string_view field, Integer value, Integer least, Integer most) {
  if (value < least || value > most) refuse(field, fmt::format("found {}, expected an integer in [{}, {}]", value, least, most));
}

// Written so that no number fails it.
void require_number(std::string_view field, double value, double most) {
  if (!(value >= 0 && value <= most)) refuse(field, fmt::format("found {}, expected a number in [0, {:g}]", value, most));
}

void check_storage(const SimulatedStorage& storage) {
  require_count("storage.fetch_places", storage.fetch_places, 1U, most_slots);
  require_count("storage.concurrency", storage.concurrency, storage.kind == SimulatedStorage::Kind::measured ? 1U : 0U, most_lanes);
  if (storage.kind != SimulatedStorage::Kind::device) return;
  const StorageDeviceSpec& device = storage.device;
  if (!(device.bytes_per_second > 0) || !std::isfinite(device.bytes_per_second)) {
    refuse("storage.device.bytes_per_second", fmt::format("found {}, expected a number above 0", device.bytes_per_second));
  }
  require_count<Nanoseconds>("storage.device.latency", device.latency, 0, max_backlog);
  require_count("storage.device.queue_depth", device.queue_depth, 1U, StorageDeviceState::max_queue_depth);
}

void check_samples(const EpochSetup& setup) {
  require_count("samples", setup.samples, 1U, UINT32_MAX - 1);
  if (!setup.records.empty() && setup.records.size() != setup.samples) {
    refuse("records", fmt::format("found {}, expected one for each of {} samples", setup.records.size(), setup.samples));
  }
  if (setup.order.nodes == 0 || setup.order.node >= setup.order.nodes) {
    refuse("order.node", fmt::format("found node {} of {}, expected it below their number", setup.order.node, setup.order.nodes));
  }
  require_count("order.readers", setup.order.readers, 1U, most_lanes);
  require_count("order.shuffle_buffer", setup.order.shuffle_buffer, 0U, UINT32_MAX / 2);
}

}  // namespace

void EpochSetup::validate() const {
  check_samples(*this);
  require_count("batch_size", batch_size, 1U, most_slots);
  require_count("prefetch_batches", prefetch_batches, 1U, most_slots);
  require_count("accelerators.count", accelerators.count, 1U, 4096U);
  require_count<std::uint64_t>("epochs", epochs, 1, most_batches);
  require_count<std::uint64_t>("epochs", epochs * (samples / batch_size + 1), 1, most_batches);
  check_storage(storage);
  if (order.buffers() && storage.fetch_places <= order.shuffle_buffer + std::uint64_t{batch_size} * accelerators.count) {
    refuse("storage.fetch_places", fmt::format("found {}, expected more than a shuffle buffer of {} and a step of {} samples", storage.fetch_places,
                                               order.shuffle_buffer, std::uint64_t{batch_size} * accelerators.count));
  }
  if (cache.kind == CacheKind::page) refuse("cache.kind", "the kernel's page cache is not simulated; use page-model:linux or page-model:random");
  require_number("cache.fraction", cache.fraction, 1);
  require_number("cache.least_priority", cache.least_priority, 1e30);
  require_number("cache.storage_cost", cache.storage_cost.seconds_per_request, 1e9);
  require_number("cache.storage_cost", cache.storage_cost.seconds_per_byte, 1e9);
  require_number("cache.copy_bytes_per_s", cache.copy_bytes_per_s, 1e18);
  require_count("prep.workers", prep.workers, 1U, most_lanes);
  require_count("prep.cores", prep.cores, 0U, most_lanes);
  require_number("accelerators.samples_per_s", accelerators.samples_per_s, 1e12);
  if (accelerators.samples_per_s > 0 && batch_size / accelerators.samples_per_s > to_seconds(max_backlog)) {
    refuse("accelerators.samples_per_s",
           fmt::format("found {}, with which a step takes longer than {} s", accelerators.samples_per_s, to_seconds(max_backlog)));
  }
}

}  // namespace dsanalyze
