#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"

namespace dsanalyze {

/// What the jobs of one server have in common.
enum class JobSharing {
  none,              ///< each fetches and prepares for itself; the cache alone is shared
  coordinated,       ///< each fetches and prepares its part, all take every batch from a staging area [CoorDL, section 4.3]
  unified_producer,  ///< what-if's name for coordinated with Producers::coordinator (Py-CoorDL) [CoorDL, App. E.2.2]; a profile has the two settings
  dependent,         ///< one process prepares; jobs draw at their own pace so that they often get the same sample [JOADER, section 3]
};
constexpr std::array<const char*, 4> names_of(JobSharing /*type*/) { return {"none", "coordinated", "unified-producer", "dependent"}; }
/// Throws UsageError naming what it found.
inline JobSharing parse_job_sharing(const std::string& text) {
  if (const std::optional<JobSharing> sharing = enum_named<JobSharing>(text)) return *sharing;
  std::string names;
  for (const char* name : enum_names<JobSharing>) names += (names.empty() ? "" : ", ") + std::string(name);
  throw UsageError("found '" + text + "', expected one of " + names);
}
inline std::string job_sharing_name(JobSharing sharing) { return enum_name(sharing); }

/// Who prepares the batches that coordinated jobs share.
enum class Producers : std::uint32_t {
  jobs,         ///< batch i of an epoch is the work of job i mod n [CoorDL, section 4.3]
  coordinator,  ///< one process fetches and prepares with all cores and hands every batch to every job (Py-CoorDL) [CoorDL, App. E.2.2]
};
constexpr std::array<const char*, 2> names_of(Producers /*type*/) { return {"jobs", "coordinator"}; }
inline std::string producers_name(Producers producers) { return enum_name(producers); }

/// Which prepared sample of a dependent group's store gives way to another.
enum class StagingPolicy {
  refcnt,  ///< what the fewest jobs still need goes first [JOADER, 3.2]
  lru      ///< what was used longest ago goes first
};
constexpr std::array<const char*, 2> names_of(StagingPolicy /*type*/) { return {"refcnt", "lru"}; }

/// How the servers of one data-parallel job part the dataset in their caches. In each epoch every server trains on its share of the global batches.
enum class PartitionMode {
  none,         ///< each server's cache keeps what that server met; no server asks another
  partitioned,  ///< each holds its part; what a server misses, it asks of the server that holds it [CoorDL, section 4.2]
  locality,     ///< each trains on what it holds; only what balances the batches is moved [Yang-Cong, section V]
};
constexpr std::array<const char*, 3> names_of(PartitionMode /*type*/) { return {"none", "partitioned", "locality"}; }
inline std::string partition_mode_name(PartitionMode mode) { return enum_name(mode); }

/// Where the samples that balance a locality-aware batch come from.
enum class BalanceFrom {
  peers,   ///< the servers that hold them: R_b = R_c of [Yang-Cong]
  storage  ///< R_b = R
};
constexpr std::array<const char*, 2> names_of(BalanceFrom /*type*/) { return {"peers", "storage"}; }
inline std::string balance_from_name(BalanceFrom from) { return enum_name(from); }

/// Whose storage it is: each server has its own, or all read from one.
enum class StorageScope { server, shared };
constexpr std::array<const char*, 2> names_of(StorageScope /*type*/) { return {"server", "shared"}; }
inline std::string storage_scope_name(StorageScope scope) { return enum_name(scope); }

}  // namespace dsanalyze
