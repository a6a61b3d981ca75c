#pragma once

#include <cstdint>
#include <span>

#include "core/cache_policy/cache_policy.hpp"

namespace dsanalyze {

/// Jobs that read one dataset through one cache: at most.
constexpr std::uint32_t most_replay_jobs = 1024;

/// Accesses that follow one another, during which no job passes from one epoch to the next. Valid until the source's next call.
struct AccessBlock {
  std::span<const CacheAccess> accesses;
  std::span<const std::uint32_t> epoch_of_job;  ///< one for each job: the epoch that its accesses of this block belong to
};

/// Where a cache's accesses come from: the order of one loader, of several jobs at once, or a recorded trace. Handed out in blocks, so that whoever
/// replays them need not hold them all.
///
/// An epoch is always a job's own: with several jobs that started at different times, the accesses of "epoch 1" are those of each job's second pass
/// over the dataset, whenever it made it. A job's epochs never decrease.
/// Threads: one caller at a time.
class AccessSource {
 public:
  virtual ~AccessSource() = default;
  /// From the first access on again; the accesses are the same each time.
  virtual void rewind() = 0;
  /// The next accesses, at least one; false at the end. May throw Error (a recorded trace that is torn).
  virtual bool next(AccessBlock& block) = 0;
  /// Every key is less.
  [[nodiscard]] virtual std::uint64_t key_count() const = 0;
  /// Every CacheAccess::job is less; from 1 to most_replay_jobs.
  [[nodiscard]] virtual std::uint32_t jobs() const = 0;
};

}  // namespace dsanalyze
