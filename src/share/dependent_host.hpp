#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dependent_feed.hpp"
#include "dependent_state.hpp"
#include "dependent_terms.hpp"
#include "group.hpp"

namespace dsanalyze {

/// The one address of a dependent group: lets jobs in whenever they come, each with its own demands, and serves each by a GroupHost of its own, which
/// is its group of one. One thread of its own beside theirs. Threads: any.
class DependentHost {
 public:
  struct Parts {
    const DependentTerms* terms = nullptr;  ///< outlives the host, as feed, index and server do
    DependentFeed* feed = nullptr;
    std::shared_ptr<const DatasetIndex> index;
    ServerHolder* server = nullptr;
    std::uint32_t most_jobs = 1;   ///< at once, at most most_dependent_jobs
    std::filesystem::path socket;  ///< where jobs find it; empty: they are given their line by connect()
    Timing timing;
    std::function<void(const GroupEvent&)> events;  ///< called by threads of the host, one at a time; may be empty
    DependentPositions positions{};                 ///< of jobs of an earlier group, that go on when they come
    std::function<void()> before_piece{};           ///< as SlabMemory's
  };
  /// Throws as GroupHost.
  explicit DependentHost(Parts parts);
  /// Jobs that still take part lose their group.
  ~DependentHost();
  DependentHost(const DependentHost&) = delete;
  DependentHost& operator=(const DependentHost&) = delete;

  /// A line for a job that this process starts: to be inherited. The job says hello within a minute.
  FileDescriptor connect();
  /// "unix:/path"; empty without a socket.
  [[nodiscard]] std::string address() const;
  /// `opened_epochs`: the most of any job.
  [[nodiscard]] GroupHost::State state() const;
  /// Of every job that was ever let in, in that order; `place` is its number.
  [[nodiscard]] std::vector<GroupJobAccount> accounts() const;
  /// As GroupHost's: some job took part, and none does any more.
  bool wait_over(Deadline deadline);
  /// Ends the group for its jobs, and returns where each with a name goes on: one that takes part, one that died, one that was to come, and one that
  /// had all its epochs and does not go on. A job that left before its epochs' end is forgotten. What a job has announced it still gets, if it looks
  /// for it within a second. Once; freezes the feed.
  DependentPositions stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace dsanalyze
