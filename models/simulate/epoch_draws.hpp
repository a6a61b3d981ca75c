#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/cache_policy/cache_policy.hpp"
#include "core/order.hpp"
#include "epoch_simulator.hpp"

namespace dsanalyze::simulation {

/// Whether the cache is simulated, or holds everything from the start: the profiler's cached subset.
enum class Held { as_set, everything };

/// The samples of a configuration: their sizes, and the order in which epochs draw them, as the sampler's.
class EpochDraws {
 public:
  explicit EpochDraws(const EpochSetup& setup);
  [[nodiscard]] Bytes bytes(SampleId sample) const {
    if (!m_setup.records.empty()) return m_setup.records[sample].length;
    return m_sizes.empty() ? m_constant_bytes : m_sizes[sample];
  }
  [[nodiscard]] Bytes total_bytes() const;

  void begin_epoch(std::uint64_t epoch);
  [[nodiscard]] std::uint64_t epoch_samples() const { return m_order.training.size(); }
  [[nodiscard]] bool epoch_ends() const { return m_end == m_order.training.size(); }
  /// The next global mini-batch.
  std::span<const SampleId> next(std::size_t count);
  /// What storage should be asked for with it: see Sampler::ahead().
  std::span<const SampleId> ahead();
  /// The order that storage is asked in, of the whole epoch.
  [[nodiscard]] std::span<const SampleId> asked() const { return m_order.storage.empty() ? m_order.training : m_order.storage; }

 private:
  const EpochSetup& m_setup;
  Bytes m_constant_bytes = 0;
  std::vector<Bytes> m_sizes;                // of each sample, where they are drawn
  std::vector<IndexRecord> m_made_up_files;  // for an order by shards without records
  EpochOrder m_order;
  std::size_t m_end = 0;    // of the last mini-batch
  std::size_t m_asked = 0;  // of the order of storage
};

/// The policy of core over memory of its own.
class CacheStage {
 public:
  CacheStage(const EpochSetup& setup, EpochDraws& draws, Held held);
  /// Decides about a group, in order; `decisions` are valid until the next call.
  std::span<const CacheDecision> access(std::span<const SampleId> samples, const EpochDraws& draws);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  StorageCost m_cost;
  std::vector<Line> m_state;
  std::unique_ptr<CachePolicy> m_policy;
  std::vector<CacheAccess> m_accesses;
  std::vector<CacheDecision> m_decisions;
  std::vector<std::uint64_t> m_evicted;
};

}  // namespace dsanalyze::simulation
