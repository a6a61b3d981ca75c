#include "simulated_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "cli/process/data_files.hpp"
#include "core/device.hpp"
#include "core/rates.hpp"
#include "loaders/dataset/dataset.hpp"
#include "models/simulate/epoch_simulator.hpp"

namespace dsanalyze::cli {
namespace {

DatasetSpec dataset_of(const Scenario& scenario) {
  DatasetSpec dataset = scenario.dataset;
  if (!scenario.preset.empty()) {
    const ConfigFile file = config_file(ConfigKind::dataset, scenario.preset);
    dataset = parse_dataset_spec(file.text, file.source);
  }
  if (scenario.samples > 0) dataset.samples = scenario.samples;
  return dataset;
}

/// What a read costs, as a profile of that device would fit it: from the rates of some request sizes.
StorageCost storage_cost_of(const StorageSpec& storage) {
  const StorageDeviceSpec device{storage.bandwidth_bytes_per_s.value, to_nanoseconds(storage.request_latency_seconds.value),
                                 static_cast<std::uint32_t>(storage.queue_depth)};
  std::vector<CostPoint> curve;
  for (const double bytes : {4096.0, 16'384.0, 65'536.0, 262'144.0, 1'048'576.0})
    curve.push_back({bytes, storage_device_rate(device, bytes, simulated_reads_under_way)});
  return fit_storage_cost(curve);
}

bool knows_future(const std::vector<ReplayPolicy>& policies) { return std::ranges::find(policies, ReplayPolicy::belady) != policies.end(); }

}  // namespace

std::vector<CacheCase> cases_of(const std::vector<ReplayPolicy>& policies, const std::vector<ByteAmount>& sizes, Bytes dataset_bytes,
                                std::span<const IndexRecord> records, const StorageCost& cost) {
  constexpr Bytes most_cache = Bytes{1} << 60;
  std::vector<CacheCase> cases;
  if (std::ranges::find(policies, ReplayPolicy::none) != policies.end()) cases.push_back({ReplayPolicy::none, 0, 0});
  for (const ByteAmount& size : sizes) {
    const Bytes capacity = size.of(dataset_bytes);
    if (capacity == 0 || capacity > most_cache)
      throw UsageError(fmt::format("--cache-size: found {} bytes, expected 1 to 2^60 (the policy none has no cache)", capacity));
    for (const ReplayPolicy policy : policies) {
      if (policy == ReplayPolicy::none) continue;
      const bool threshold = policy == ReplayPolicy::minio_cost_aware && !records.empty();
      cases.push_back({policy, capacity, threshold ? admission_threshold(records, cost, capacity) : 0});
    }
  }
  return cases;
}

void require_replay_memory(const std::string& what, std::uint64_t samples, std::uint64_t accesses, double bytes_a_sample,
                           const std::vector<ReplayPolicy>& policies) {
  constexpr double policy_bytes_a_sample = 24;  // the largest policy's; with several, states are held together only up to a limit
  const bool future = knows_future(policies);
  const double needed = static_cast<double>(samples) * (policy_bytes_a_sample + bytes_a_sample + (future ? 12 : 0)) +
                        (future ? static_cast<double>(accesses) * 8.2 : 0);
  const Bytes available = read_host_facts().memory_usable;
  if (needed <= static_cast<double>(available)) return;
  throw Error(fmt::format("{}: to simulate {} samples and {} accesses takes {} of memory, but {} are available{}", what, samples, accesses,
                          format_bytes(static_cast<Bytes>(std::min(needed, 1e18))), format_bytes(available),
                          future ? "; without belady, which must know the whole trace, it takes less" : ""));
}

SimulatedScenario::SimulatedScenario(const Scenario& scenario, std::uint64_t seed) : m_scenario(scenario) {
  const DatasetSpec dataset = dataset_of(scenario);
  m_jobs.order = scenario.order;
  m_jobs.samples = static_cast<std::uint32_t>(dataset.samples);
  m_jobs.unit = scenario.unit_bytes;
  if (!scenario.storage.empty()) {
    const ConfigFile file = config_file(ConfigKind::storage, scenario.storage);
    m_storage = parse_storage(file.text, file.source);
    m_jobs.storage_cost = storage_cost_of(m_storage);
  }
  m_jobs.seed = scenario.seed.value_or(seed);
  m_jobs.epochs = scenario.epochs;
  m_jobs.jobs = scenario.jobs;
  m_jobs.seeds = scenario.job_orders == Scenario::JobOrders::same ? JobSeeds::same : JobSeeds::own;
  m_jobs.stagger = scenario.stagger;
  m_jobs.turn = scenario.turn_samples;
  // Of each sample: its record, its shard's, and its place in each job's order and in the next.
  const double records = scenario.order.kind == OrderKind::shards ? 2 : 1;
  require_replay_memory(scenario.name, dataset.samples, accesses(), records * sizeof(IndexRecord) + sizeof(SampleId) * (scenario.jobs + 2.0),
                        scenario.policies);
  make_samples(dataset);
}

void SimulatedScenario::make_samples(const DatasetSpec& dataset) {
  const bool shards = m_scenario.order.kind == OrderKind::shards;
  if (dataset.sample_bytes_deviation == 0 && !shards) {
    m_jobs.sizes.each = dataset.mean_sample_bytes;
    m_dataset_bytes = dataset.total_bytes();
    return;
  }
  m_index = make_emulated_index(dataset, dataset.samples, 1, m_jobs.seed);
  m_jobs.sizes.records = m_index->records();
  m_dataset_bytes = m_index->bytes();
  m_digest = m_index->facts().digest;
  if (!shards) return;
  m_sharded.assign(m_index->records().begin(), m_index->records().end());
  for (std::size_t i = 0; i < m_sharded.size(); ++i) m_sharded[i].file = static_cast<std::uint32_t>(i / m_scenario.shard_samples);
  m_jobs.sizes.records = m_sharded;
}

std::vector<CacheCase> SimulatedScenario::cases() const {
  return cases_of(m_scenario.policies, m_scenario.cache_sizes, m_dataset_bytes, m_jobs.sizes.records, m_jobs.storage_cost);
}

std::uint64_t SimulatedScenario::accesses() const { return std::uint64_t{m_jobs.samples} * m_jobs.epochs * m_jobs.jobs; }

SimulateResult SimulatedScenario::result(const std::string& path) const {
  SimulateResult result;
  result.tool = this_tool();
  result.source = path;
  result.name = m_scenario.name;
  result.description = m_scenario.description;
  result.samples = m_jobs.samples;
  result.dataset_bytes = m_dataset_bytes;
  result.digest = m_digest;
  result.jobs = m_jobs.jobs;
  result.accesses = accesses();
  const OrderSpec& order = m_jobs.order;
  result.orders = SimulatedOrders{order_kind_name(order.kind),
                                  order.shuffle_buffer,
                                  order.readers,
                                  m_jobs.seeds == JobSeeds::same ? "same" : "own",
                                  m_jobs.stagger,
                                  m_jobs.turn,
                                  m_jobs.unit,
                                  m_jobs.seed};
  return result;
}

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
