#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/text/units.hpp"
#include "cache_policy.hpp"

namespace dsanalyze {

/// Whose decisions a replayed trace is put before.
enum class ReplayPolicy : std::uint8_t {
  none,
  minio,             ///< admits what comes first
  minio_cost_aware,  ///< admits from CacheCase::least_priority on
  lru,
  page_model_random,
  page_model_linux,
  belady  ///< knows the future: of what is held and of what just came, drops what is used last. With items of one size nothing has more hits
};
constexpr std::array<const char*, 7> names_of(ReplayPolicy /*type*/) {
  return {"none", "minio", "minio:cost-aware", "lru", "page-model:random", "page-model:linux", "belady"};
}
/// Throws UsageError, with a near name.
ReplayPolicy parse_replay_policy(const std::string& text);
std::string replay_policy_name(ReplayPolicy policy);
/// Of a loader's cache. The kernel's page cache decides nothing that a loader knows of: none.
ReplayPolicy replay_policy_of(CacheKind kind, Admission admission);
/// The kind of cache whose policy decides; none for Belady's optimum, which no loader has.
CacheKind cache_kind_of(ReplayPolicy policy);
std::vector<std::string> replay_policy_names();

/// One column of the table: a policy with a cache of so many bytes.
struct CacheCase {
  ReplayPolicy policy = ReplayPolicy::minio;
  Bytes capacity = 0;
  float least_priority = 0;  ///< minio_cost_aware alone: admission_threshold() of the dataset

  bool operator==(const CacheCase&) const = default;
};

/// What was asked of a cache, and what of it had to be read from storage.
struct AccessCounts {
  std::uint64_t accesses = 0;
  std::uint64_t hits = 0;
  Bytes bytes = 0;         ///< of all accesses
  Bytes bytes_missed = 0;  ///< of the misses: read from storage

  [[nodiscard]] std::uint64_t misses() const { return accesses - hits; }
  [[nodiscard]] double miss_share() const { return accesses > 0 ? static_cast<double>(misses()) / static_cast<double>(accesses) : 0; }
  void add(const AccessCounts& other) {
    accesses += other.accesses;
    hits += other.hits;
    bytes += other.bytes;
    bytes_missed += other.bytes_missed;
  }
  bool operator==(const AccessCounts&) const = default;
};

struct EpochCounts {
  std::uint32_t epoch = 0;
  AccessCounts counts;
  bool operator==(const EpochCounts&) const = default;
};

/// What one case made of a trace.
struct CaseCounts {
  CacheCase cache;
  std::vector<EpochCounts> epochs;             ///< each epoch of all jobs together, rising
  std::vector<std::vector<EpochCounts>> jobs;  ///< for each job, its own epochs, rising
  std::uint64_t items_held = 0;                ///< at the end
  Bytes bytes_held = 0;

  /// The counts of one job's epoch, which is its last so far or a later one: made if they are not there.
  AccessCounts& of(std::uint32_t job, std::uint32_t epoch);
  /// Makes `epochs` of `jobs`.
  void add_up();
  bool operator==(const CaseCounts&) const = default;
};

}  // namespace dsanalyze
