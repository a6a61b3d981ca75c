#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "share/dependent_feed.hpp"

namespace dsanalyze::testing {

/// One of the jobs of a schedule.
struct ExploredJob {
  std::uint32_t batch_size = 3;
  std::uint32_t slots = 2;
  std::uint64_t epochs = 2;
  std::vector<SampleId> subset{};
  Nanoseconds batch_time = 0;  ///< that it keeps each batch, of simulated time
  Nanoseconds comes = 0;       ///< simulated time from the start
};

/// A job is gone, as its process may be at any time: the first time from its `after`-th step on that a thread of the feed is about to take `before`
/// for it, or at its `after`-th step of any kind.
struct ExploredDeath {
  std::uint32_t job = 0;
  std::uint64_t after = 0;
  std::optional<DependentStep> before{};
};

struct DependentSchedule {
  std::uint64_t seed = 0;
  std::vector<ExploredJob> jobs;
  std::vector<ExploredDeath> deaths;
  std::uint32_t store_places = 4;
  std::uint32_t in_flight = 3;
  StagingPolicy policy = StagingPolicy::refcnt;
  std::optional<std::uint64_t> freeze_after{};  ///< turns; what is left comes from a second feed that goes on
};

struct DependentExplored {
  std::string problem;  ///< empty: every claim held
  std::uint64_t turns = 0;
  std::uint64_t drawn = 0;
  std::uint64_t prepared = 0;
  std::uint64_t resumed = 0;  ///< jobs that went on in mid-epoch
  std::array<std::uint64_t, dependent_steps> taken{};
  std::array<std::uint64_t, dependent_steps> killed{};  ///< deaths right before each step
  void operator+=(const DependentExplored& other);
};

/// Runs a feed with its own threads, a loader and jobs under a scheduler (Turns), and checks that a place is in one use at a time and there are never
/// more than the limit, that what is copied is what was prepared, that each job that lives gets each sample once an epoch and no version twice, that
/// nothing is written into slots of one that is gone, and that all comes to an end.
DependentExplored explore(const DependentSchedule& schedule);

}  // namespace dsanalyze::testing
