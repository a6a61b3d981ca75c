#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.hpp"
#include "base/text/units.hpp"
#include "core/batch.hpp"
#include "jobs_record.hpp"

namespace dsanalyze {

// What a profile says of the ranks of one data-parallel job, one a server, in its full run.

struct RankEpochRecord {
  std::uint64_t epoch = 0;
  double seconds = 0;
  double end_seconds = 0;     ///< when it had trained the epoch: since the first epoch began, which all ranks begin at once
  std::uint64_t samples = 0;  ///< trained on by the rank
  std::string digest;         ///< of the set of these samples, whatever their order
  std::uint64_t cache_hits = 0;
  std::uint64_t peer_hits = 0;         ///< samples that came from other ranks' caches
  Bytes peer_bytes = 0;                ///< of these
  Bytes requested_bytes = 0;           ///< asked of storage
  std::optional<Bytes> storage_bytes;  ///< that reached the device; absent where nothing can tell
};

struct RankRecord {
  int rank = 0;
  std::string host;           ///< its name
  JobEnd end = JobEnd::lost;  ///< finished or lost
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;  ///< mean, first epoch apart
  double seconds = 0;
  std::uint64_t samples = 0;  ///< trained on
  std::uint64_t samples_failed = 0;
  std::uint64_t cache_hits = 0;
  std::uint64_t cache_misses = 0;
  std::uint64_t peer_hits = 0;  ///< misses that came from other ranks' caches
  Bytes peer_bytes = 0;
  std::uint64_t redirected_requests = 0;  ///< that the rank asked first did not serve: they went on to another, or to storage
  std::uint64_t served_samples = 0;       ///< to other ranks
  Bytes served_bytes = 0;
  Bytes requested_bytes = 0;
  std::optional<Bytes> storage_bytes;
  std::uint64_t held_samples = 0;  ///< in its cache at the end
  Bytes held_bytes = 0;
  std::uint64_t adopted_samples = 0;  ///< read into its cache after the first epoch, because no rank held them
  Bytes adopted_bytes = 0;
  std::uint64_t refused_connections = 0;  ///< of strangers
  double first_batch_seconds = 0;
  double stall_fraction = 0;         ///< of its time, in which its accelerators waited for a batch; first epoch apart
  double longest_stall_seconds = 0;  ///< that an accelerator waited for a batch; first epoch apart
  Bytes peak_memory_bytes = 0;       ///< that its process had resident
  std::vector<RankEpochRecord> epochs;
  std::optional<TrainingRecord> training;
};
/// As a result has it in "ranks", and back. Throws UsageError that names the field.
std::string to_json(const RankRecord& rank);
RankRecord rank_from_json(std::string_view text, const std::string& source);

/// A rank that died, or was cut off, while the others went on.
struct LostRankRecord {
  int rank = 0;
  std::uint64_t epoch = 0;          ///< in which it was lost
  std::vector<SampleId> untrained;  ///< its share of that epoch, ascending: how much of it it did train is not known
};

/// What the ranks had in common.
struct PartitionRecord {
  std::string partition;      ///< none, partitioned, locality
  std::string balance_from;   ///< peers, storage
  std::string storage_scope;  ///< server, shared
  int world = 0;              ///< ranks at the begin
  int ranks_at_end = 0;
  std::uint64_t nowhere_samples = 0;  ///< that no cache had room for: storage serves them in every epoch
  Bytes nowhere_bytes = 0;
  double balance_traffic = 0;  ///< beta: mean share of a global mini-batch that was moved to balance it; of locality
  std::vector<LostRankRecord> lost;
};

}  // namespace dsanalyze
