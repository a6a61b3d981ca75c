#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "loaders/staging/staging.hpp"

namespace dsanalyze::testing {

/// What befalls a job, by its own hand.
struct Blow {
  enum class Deed : std::uint8_t {
    kill,         ///< SIGKILL
    stop,         ///< SIGSTOP
    stop_needed,  ///< SIGSTOP in the middle of a slot, once this very job has released all batches before and waits for this one
    spoil_page,   ///< it writes nonsense over its control page, and goes on
    keep_batches  ///< it releases nothing any more (no step: when it has one)
  };
  Deed deed = Deed::kill;
  std::uint32_t job = 0;            ///< in order of coming
  std::optional<StagingStep> step;  ///< before this one; without, in the middle of a slot
  std::uint64_t skipped = 0;        ///< times that it gets past there
};

/// What all processes of a group count together.
struct SharedTally {
  std::atomic<std::uint64_t> made{0};
  std::array<std::atomic<std::uint64_t>, staging_steps> taken{};
  std::array<std::atomic<std::uint64_t>, staging_steps> killed{};
};

/// A coordinator in this process, and its jobs as processes that make, take, check and release batches.
class GroupOfProcesses {
 public:
  /// Jobs leave after so many epochs; 0: when the group ends.
  GroupOfProcesses(const StagingFacts& facts, std::uint64_t epochs, std::vector<Blow> blows);
  ~GroupOfProcesses();
  GroupOfProcesses(const GroupOfProcesses&) = delete;
  GroupOfProcesses& operator=(const GroupOfProcesses&) = delete;

  /// Starts another job; false when it says nothing.
  bool start();
  /// Starts as many as take part; the first epoch does not wait for those that die before it.
  bool start_all();
  /// Surveys until `enough` says so; false when patience ends first.
  bool survey_until(const std::function<bool()>& enough);
  [[nodiscard]] bool ended(std::uint32_t job) const;
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] std::uint32_t jobs() const { return static_cast<std::uint32_t>(m_members.size()); }
  /// Exit status (0: got all its batches, whole, once, in order), or the signal that ended it, negative.
  [[nodiscard]] int end_of(std::uint32_t job) const;
  void signal(std::uint32_t job, int number) const;
  /// As when the coordinator dies.
  void hang_up();
  StagingCoordinator& coordinator() { return m_coordinator; }
  [[nodiscard]] const SharedTally& tally() const { return *m_tally; }

  std::vector<StagingRound::Departed> departed;
  std::vector<std::uint32_t> vacated;
  std::size_t late = 0;

 private:
  struct Member {
    pid_t process = 0;
    FileDescriptor socket;
    std::uint32_t place = 0;
  };
  struct Unmap {
    void operator()(SharedTally* tally) const;
  };
  [[nodiscard]] bool lives(std::uint32_t place) const;

  const StagingFacts m_facts;
  const std::uint64_t m_epochs;
  const std::vector<Blow> m_blows;
  const Deadline m_patience;
  std::unique_ptr<SharedTally, Unmap> m_tally;
  std::vector<Member> m_members;
  StagingCoordinator m_coordinator;
};

}  // namespace dsanalyze::testing
