#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/cache_policy/cache_replay.hpp"
#include "core/order.hpp"
#include "core/storage_cost.hpp"
#include "core/trace/access_trace.hpp"

namespace dsanalyze {

/// How many bytes each sample has: as the records say, as the sizes say, or each as many.
struct ReplaySizes {
  std::span<const IndexRecord> records;
  std::span<const std::uint32_t> sizes;
  Bytes each = 0;  ///< when both are empty

  [[nodiscard]] Bytes of(SampleId id) const { return !records.empty() ? records[id].length : !sizes.empty() ? sizes[id] : each; }
};

/// Whether jobs have orders of their own, or, with the same seed, one order that each passes through in its own time.
enum class JobSeeds { own, same };

/// Jobs that read one dataset through one cache.
///
/// All jobs run at one speed: they take turns, `turn` samples each (a sample, or a batch; a turn ends with its job's epoch). Job j begins when a job
/// that began at the very start would have taken j x stagger x samples.
struct JobOrders {
  OrderSpec order;
  std::uint32_t samples = 0;
  ReplaySizes sizes;         ///< with records also the shards of `order`
  Bytes unit = 1;            ///< what items are kept in: each counts as a whole number of units (4096: pages)
  StorageCost storage_cost;  ///< for cost-aware admission: what priorities are
  std::uint64_t seed = 0;    ///< of job 0, as the loader has it; job j's own is mix(seed, j)
  JobSeeds seeds = JobSeeds::own;
  std::uint64_t first_epoch = 0;
  std::uint32_t epochs = 1;
  std::uint32_t jobs = 1;
  double stagger = 0;  ///< share of an epoch between the begins of two jobs
  std::uint32_t turn = 1;
  std::uint32_t servers = 1;  ///< among as many a job is spread: this one's cache sees a random 1/servers of the dataset, another one each epoch
};
/// The accesses of such jobs, in the order in which a cache is asked for them: of the orders' storage side, where a shuffle buffer makes them differ.
/// Memory: each job's order of one epoch. The spans in `jobs` must outlive the source. Throws Error for no samples, jobs, epochs, turn or unit,
/// more than most_replay_jobs, a stagger outside 0 to 1000, servers in any but random order, sizes that are not one a sample, and shards without
/// records.
std::unique_ptr<AccessSource> make_order_source(const JobOrders& jobs);

struct ReplayOptions {
  Bytes state_bytes =
      Bytes{1} << 30;  ///< cases are replayed together as long as their state takes no more (one at least); then the source is rewound
  std::uint64_t most_oracle_accesses = std::uint64_t{1} << 29;  ///< Belady's optimum holds 8 bytes an access; a longer trace is refused
  /// Called now and then with the accesses decided so far, of all cases. It may throw to end the replay.
  std::function<void(std::uint64_t decided)> progress;
};
/// Puts one trace before every case. The decisions are those of make_cache_policy(), so a loader's cache of the same capacity, kind and trace has the
/// same hits; those of Belady's optimum are here [Belady, "A study of replacement algorithms for a virtual-storage computer", 1966]. An item's size
/// is that of its access (Belady: of its first access). Where sizes differ, Belady's rule is no optimum of hits or bytes, only a good one. A pure
/// function of the source's accesses and the cases. Throws Error when the trace is too long for Belady's optimum, and what the source throws.
std::vector<CaseCounts> replay(AccessSource& source, std::span<const CacheCase> cases, const ReplayOptions& options = {});

}  // namespace dsanalyze
