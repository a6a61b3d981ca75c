#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/index.hpp"
#include "core/records/scenario.hpp"
#include "core/records/simulate_result.hpp"
#include "models/simulate/cache_simulator.hpp"

namespace dsanalyze::cli {

constexpr std::uint32_t simulated_reads_under_way = 16;  ///< as a profile with emulated devices keeps

/// A scenario with its presets looked up and its samples made up: what a replay needs.
class SimulatedScenario {
 public:
  /// `seed` counts when the scenario has none. Throws UsageError for a preset that is not known, Error when it needs more memory than there is.
  SimulatedScenario(const Scenario& scenario, std::uint64_t seed);

  [[nodiscard]] std::unique_ptr<AccessSource> source() const { return make_order_source(m_jobs); }
  [[nodiscard]] std::vector<CacheCase> cases() const;
  [[nodiscard]] std::uint64_t accesses() const;
  /// Of each case, in its place, how long epochs take; empty without a pipeline. Calls `progress` with the cases done, which may throw.
  [[nodiscard]] std::vector<std::optional<PipelineTimes>> times(std::span<const CacheCase> cases,
                                                                const std::function<void(std::size_t)>& progress) const;
  /// All of the result but its cases.
  [[nodiscard]] SimulateResult result(const std::string& path) const;

 private:
  void make_samples(const DatasetSpec& dataset);
  [[nodiscard]] PipelineTimes time(const Scenario::Pipeline& pipeline, const CacheCase& cache) const;

  Scenario m_scenario;
  JobOrders m_jobs;
  StorageSpec m_storage;  // when it is named
  Bytes m_dataset_bytes = 0;
  std::string m_digest;
  std::shared_ptr<const DatasetIndex> m_index;  // when sizes differ
  std::vector<IndexRecord> m_sharded;           // when shards matter
};

/// Throws Error when a replay takes more memory than there is: `bytes_a_sample` beside what policies hold. `what` is what is replayed.
void require_replay_memory(const std::string& what, std::uint64_t samples, std::uint64_t accesses, double bytes_a_sample,
                           const std::vector<ReplayPolicy>& policies);

/// Every policy with every size; the policy none once.
std::vector<CacheCase> cases_of(const std::vector<ReplayPolicy>& policies, const std::vector<ByteAmount>& sizes, Bytes dataset_bytes,
                                std::span<const IndexRecord> records, const StorageCost& cost);

}  // namespace dsanalyze::cli
