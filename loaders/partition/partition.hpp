#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "core/index.hpp"
#include "core/partition/peers.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/fetch/fetch_engine.hpp"

namespace dsanalyze {

// A loader whose server is one of several that part the dataset in their caches [CoorDL, section 4.2]: what the cache here misses comes from the
// server that holds it, else from storage.

/// Whom to ask for a sample, and what to keep. Changes only between epochs, while nothing is in flight. Threads: any.
class PartitionRules {
 public:
  virtual ~PartitionRules() = default;
  /// The rank to ask at the `attempt`-th time (from 0), never this one or a dead one; nullopt: storage.
  [[nodiscard]] virtual std::optional<std::uint32_t> ask(SampleId sample, std::uint32_t attempt) const = 0;
  /// Whether this rank's cache is one for this sample.
  [[nodiscard]] virtual bool keeps(SampleId sample) const = 0;
};

/// Peers first, then storage: a sample that no peer gives (dead, not held, wrong bytes) is read from storage, so that peers can cost time, never a
/// sample. Completions say which it was.
class PartitionedEngine : public FetchEngine {
 public:
  /// Reads samples from storage past the loader, for instance to adopt them into the cache: `take` is called for each that could be read, one at a
  /// time. To be called while the loader has no request in flight, and only then. timeout at the deadline, cancelled after cancel(); samples that
  /// could not be read are left out.
  using Take = std::function<void(SampleId sample, std::span<const std::byte> bytes)>;
  virtual Status read_aside(std::span<const SampleId> samples, const Take& take, Deadline deadline) = 0;
  /// Requests that a peer did not serve and that went on to another or to storage.
  [[nodiscard]] virtual std::uint64_t redirected() const = 0;
};

/// `peers` and `rules` outlive the engine; `peers` has room for as many requests as `storage` has places, and delivers to this engine alone.
std::unique_ptr<PartitionedEngine> make_partitioned_engine(std::shared_ptr<const DatasetIndex> index, std::unique_ptr<FetchEngine> storage,
                                                           PeerSource& peers, const PartitionRules& rules, Timing timing);

/// The same peers behind an emulated link of this server: what comes from them comes one after another, at `bytes_per_second` at most. `peers`
/// outlives it and delivers to it alone.
std::unique_ptr<PeerSource> make_emulated_network(PeerSource& peers, double bytes_per_second, Timing timing);

/// The threshold that a MinIO cache is made with (CacheOptions::least_priority) for make_partitioned_cache().
constexpr float partition_priority = 1;

/// A view of a MinIO cache that admits what the rules keep here, and nothing else. `cache` and `rules` outlive it. Threads: as RawCache.
std::unique_ptr<RawCache> make_partitioned_cache(RawCache& cache, const PartitionRules& rules);

}  // namespace dsanalyze
