#include "simulated_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "cli/process/data_files.hpp"
#include "core/device.hpp"
#include "loaders/dataset/dataset.hpp"

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

}  // namespace dsanalyze::cli
