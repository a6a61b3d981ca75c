#include <algorithm>

#include "core/rates.hpp"
#include "models/simulate/epoch_simulator.hpp"
#include "simulated_scenario.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::uint32_t least_prefetch = 4;
constexpr std::uint32_t most_waiting_reads = 512;

/// As a profile with emulated devices sets its loader up.
void set_up_loader(const Scenario::Pipeline& pipeline, const StorageSpec& storage, const OrderSpec& order, EpochSetup& setup) {
  const auto cores = static_cast<std::uint32_t>(pipeline.cores);
  const auto accelerators = static_cast<std::uint32_t>(pipeline.accelerators);
  const auto queue_depth = static_cast<std::uint32_t>(storage.queue_depth);
  setup.batch_size = static_cast<std::uint32_t>(pipeline.batch_size);
  setup.prefetch_batches = std::max(least_prefetch, 2 * accelerators);
  setup.storage.kind = SimulatedStorage::Kind::device;
  setup.storage.device = {storage.bandwidth_bytes_per_s.value, to_nanoseconds(storage.request_latency_seconds.value), queue_depth};
  setup.storage.fetch_places =
      std::max(2 * simulated_reads_under_way + 2 * cores + std::min(setup.batch_size, most_waiting_reads), 2 * queue_depth + 2 * cores);
  if (order.buffers()) setup.storage.fetch_places += order.shuffle_buffer + setup.batch_size * accelerators;
  setup.prep.kind = SimulatedPrep::Kind::emulated;
  setup.prep.workers = cores;
  setup.prep.cores = cores;
  setup.prep.seconds_per_sample = ServiceTimes::constant(1 / pipeline.prep_rate_per_core, "/pipeline/prep");
  setup.accelerators = {accelerators, pipeline.accelerator_rate, StepMode::lockstep};
}

}  // namespace

std::vector<std::optional<PipelineTimes>> SimulatedScenario::times(std::span<const CacheCase> cases,
                                                                   const std::function<void(std::size_t)>& progress) const {
  std::vector<std::optional<PipelineTimes>> times;
  if (!m_scenario.pipeline) return times;
  for (const CacheCase& cache : cases) {
    progress(times.size());
    if (cache.policy == ReplayPolicy::belady) {
      times.emplace_back();
    } else {
      times.emplace_back(time(*m_scenario.pipeline, cache));
    }
  }
  return times;
}

PipelineTimes SimulatedScenario::time(const Scenario::Pipeline& pipeline, const CacheCase& cache) const {
  EpochSetup setup;
  setup.samples = m_jobs.samples;
  setup.records = m_jobs.sizes.records;
  setup.sample_bytes = SampleSizes::constant(static_cast<double>(m_jobs.sizes.each), "/dataset/mean_sample_bytes");
  setup.order = m_jobs.order;
  setup.seed = m_jobs.seed;
  setup.epochs = m_jobs.epochs;
  set_up_loader(pipeline, m_storage, m_jobs.order, setup);
  setup.cache.kind = cache_kind_of(cache.policy);
  setup.cache.fraction = std::min(1.0, static_cast<double>(cache.capacity) / static_cast<double>(m_dataset_bytes));
  setup.cache.storage_cost = m_jobs.storage_cost;
  setup.cache.least_priority = cache.policy == ReplayPolicy::minio_cost_aware ? cache.least_priority : 0;

  const EpochSimulation simulated = simulate_epochs(setup);
  const SimulatedVerdict verdict = simulate_verdict(setup, simulated);
  PipelineTimes times;
  times.samples_per_s = simulated.steady.samples_per_s;
  times.epoch_seconds = simulated.steady.seconds;
  times.first_batch_seconds = simulated.first_batch_seconds;
  times.stall_p50_seconds = simulated.steady.stall_p50_seconds;
  times.stall_p99_seconds = simulated.steady.stall_p99_seconds;
  times.boundary_stall_seconds = simulated.steady.boundary_stall_seconds;
  times.fetch = verdict.fetch;
  times.prep = verdict.prep;
  times.ingestion = verdict.ingestion;
  times.prep_stall = verdict.stalls.prep;
  times.fetch_stall = verdict.stalls.fetch;
  times.bottleneck = resource_name(verdict.rule.resource);
  times.too_close = verdict.too_close;
  return times;
}

}  // namespace dsanalyze::cli
