#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/host/control_group.hpp"
#include "core/records/result.hpp"
#include "core/records/whatif_result.hpp"

namespace dsanalyze {

/// Why memory or storage cannot be limited here as an answer of a launched training asks; empty when it can, or need not be.
std::string limits_refused(const ProfileResult& profile, const WhatIfChange& change);

/// How long it takes to bring the data into the page cache as an answer has it; seconds.
double fill_seconds(const ProfileResult& profile, const WhatIfChange& change);
/// How long after a training's start its page cache, held to a size, is taken for steady; seconds.
double settling_seconds(const WhatIfChange& change);

/// Memory and storage that a training has which is run with the change of an answer. Construct it, run the training, destroy it.
///
/// The data lies in memory where all of it fits there, as it does after a training's first epoch. With memory for the page cache (--cache-size) this
/// process is in a memory cgroup meanwhile, with what it starts: the data leaves the page cache and is read into the cgroup's in random order, as
/// epochs do, until the kernel's lists of pages are those of a long run. A thread holds the group to that size beside what processes take themselves.
/// Until `start_seconds` after that the group has a GiB more, so that a process that grows does not evict the data. With a slower storage, the
/// process is in a group whose reads are limited. Without root or files this is refused; limits_refused() says so before. Threads: construct and
/// destroy on one. Throws Error where it is not permitted or storage takes far longer than the profile says, Interrupted.
class TrainingLimits {
 public:
  TrainingLimits(const ProfileResult& profile, const WhatIfChange& change, double start_seconds, const std::stop_token& stop, Timing timing);
  ~TrainingLimits() = default;
  TrainingLimits(const TrainingLimits&) = delete;
  TrainingLimits& operator=(const TrainingLimits&) = delete;
  /// Whether the memory for the page cache has been limited for so long, to what the change asks for; true without such a change.
  [[nodiscard]] bool held_for(double seconds) const;

 private:
  /// Limits the group to so much page cache, beside what the processes take, or, while one starts, a GiB. Whether none starts any more. Throws Error.
  bool hold(Bytes target);
  void follow(Bytes target, const std::stop_token& ending);

  std::atomic<Nanoseconds> m_held_since = never_held;
  std::mutex m_limiting;
  Nanoseconds m_started_by = never_held;  ///< a process that starts has grown by then; never_held: the data is still being read; with m_limiting
  static constexpr Nanoseconds never_held = -1;
  const Clock* m_clock = nullptr;
  std::unique_ptr<MemoryGroup> m_memory;
  std::unique_ptr<StorageGroup> m_storage;
  std::jthread m_follower;  ///< ends before the groups go
};

}  // namespace dsanalyze
