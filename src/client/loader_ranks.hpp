#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "client.hpp"
#include "loaders/pipeline.hpp"
#include "ranks/rank_team.hpp"
#include "transport/rendezvous/job_key.hpp"

namespace dsanalyze::client {

/// How the loaders of a job's ranks find one another.
struct RanksWish {
  std::string rendezvous;             ///< HOST:PORT where rank 0 listens, or a file on a file system that all share
  std::string listen;                 ///< where this rank is reached: an address, a network or an interface; empty: 127.0.0.1
  std::optional<SecretKey> key = {};  ///< the same in all ranks; needed where the rendezvous is not on this machine
  double meeting_seconds = 60;        ///< for all to come
  double peer_seconds = 20;           ///< without a word of it for so long, a rank is lost
  double epoch_seconds = 1800;        ///< the ranks wait for one another at an epoch's begin
};

/// The loader of one rank of several that hold a dataset together: they meet in a thread of this object's own, and from then on each serves the
/// others from its cache. Where a rank is lost, the loaders of all others end after the epoch, as no training goes on without it. Threads: as each
/// function says.
class LoaderRanks {
 public:
  struct Parts {
    const LoadInputs& inputs;  ///< outlive it
    Pipeline::Spec spec;       ///< without server, peers, rules and share
    std::uint32_t rank = 0;
    std::uint32_t world = 1;
    RanksWish wish;
    Timing timing;
  };
  /// Binds the address that this rank is reached at, and begins to meet the others. Throws UsageError, Error.
  explicit LoaderRanks(Parts parts);
  /// No loader of the pipeline lives. Leaves the others, who read from storage what they would have asked this rank for.
  ~LoaderRanks();
  LoaderRanks(const LoaderRanks&) = delete;
  LoaderRanks& operator=(const LoaderRanks&) = delete;

  /// Waits until all have met: DSA_OK; DSA_TIMEOUT; DSA_END after leave(); else why they did not. Threads: any.
  [[nodiscard]] Answer ready(Deadline deadline) const;
  /// Once they have met.
  [[nodiscard]] Pipeline& pipeline() { return m_joined->partition.pipeline(); }
  /// A loader of the pipeline has ended by itself: why this rank cannot go on; empty where it was stopped. Threads: any.
  [[nodiscard]] std::string failure() const;
  /// All ranks go on elsewhere, each once, at its next loader: while none of this rank lives.
  void restart();
  /// A meeting that goes on ends soon, and the others are told that this rank leaves. While no loader of the pipeline runs. Threads: any.
  void leave();
  /// What the ranks have said to one another so far; nothing before they met. Threads: any.
  [[nodiscard]] std::optional<RankCounters> counters() const;

 private:
  enum class Stage : std::uint32_t { meeting, joined, failed };
  struct Joined {
    Joined(std::unique_ptr<Ranks> ranks, const Parts& parts);
    RankTeam team;
    RankPartition partition;
  };

  void meet_others(const std::stop_token& stop, Listener listener);
  void join(const std::stop_token& stop, Listener listener);
  /// What is known before the ranks have met.
  [[nodiscard]] RankFacts first_facts() const;

  Parts m_parts;
  mutable std::atomic<std::uint32_t> m_stage;
  Answer m_failure;  ///< written before m_stage says so
  std::unique_ptr<Joined> m_joined;
  std::jthread m_meeting;
};

}  // namespace dsanalyze::client
