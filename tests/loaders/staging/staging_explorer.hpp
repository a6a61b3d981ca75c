#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loaders/staging/staging.hpp"

namespace dsanalyze::testing {

/// Sanitizers are slow and look for other things: they see every so many-th of the schedules.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(__clang__)
constexpr std::uint64_t every_so_many = 10;
#else
constexpr std::uint64_t every_so_many = 1;
#endif

/// What befalls a job before the scheduler's step `at`, or the first time from then on that its own next step is `before`.
struct StagingFault {
  enum class Kind : std::uint8_t {
    kill,          ///< its process ends
    stop,          ///< it is not scheduled for a second of simulated time
    garbage_page,  ///< it writes nonsense all over its control page, and hangs; it may have left before
    rewind_page,   ///< its control page goes back to the beginning, and it hangs
    lying_page,    ///< its control page says what could be, but is not so, and it hangs
    garbage_slab,  ///< it writes nonsense over its slot headers, and hangs
    leave,         ///< it leaves at once
    join           ///< a new job comes (`job` is not used)
  };
  Kind kind = Kind::kill;
  std::uint32_t job = 0;  ///< in order of coming
  std::uint64_t at = 0;
  std::optional<StagingStep> before = {};
};

/// How many batches a job asks for before it gives one back.
enum class StagingAppetite : std::uint8_t {
  any,  ///< now one, now as many as it may hold
  all   ///< as many as it may hold, unless no epoch is open
};

/// One schedule: who runs next is drawn from the seed, or, with `preemptions`, the one that runs goes on until it waits, but at these steps the next
/// one takes over.
struct StagingSchedule {
  StagingFacts facts;
  std::uint64_t epochs = 1;
  StagingAppetite appetite = StagingAppetite::any;
  std::uint64_t seed = 0;
  bool systematic = false;
  std::uint64_t delivery = 8;  ///< steps, on average, until a job acts on who came and who went
  std::vector<std::uint64_t> preemptions;
  std::vector<StagingFault> faults;
};

struct StagingCoverage {
  std::array<std::uint64_t, staging_steps> taken{};   ///< how often each step was taken
  std::array<std::uint64_t, staging_steps> killed{};  ///< how often a job was killed right before it
  void operator+=(const StagingCoverage& other);
};

struct StagingRun {
  std::string problem;  ///< empty: every claim held
  std::uint64_t steps = 0;
  std::uint64_t made = 0;            ///< batches published
  std::uint32_t most_staged = 0;     ///< batches in slots at once
  std::uint64_t late = 0;            ///< reports answered by a broadcast
  std::uint64_t garbage = 0;         ///< jobs put out for what they wrote
  Nanoseconds longest_takeover = 0;  ///< from a death to the moment when it counts no more
  Nanoseconds longest_gap = 0;       ///< simulated time in which no job got anything
  StagingCoverage coverage;
};

/// Runs consumers, producers and the coordinator over plain memory, one protocol step at a time, and checks after each that no batch is read before
/// it is whole or overwritten before all live jobs released it, that every live job gets every batch once and in order, that memory stays within its
/// bound and that all comes to an end.
StagingRun explore(const StagingSchedule& schedule);

}  // namespace dsanalyze::testing
