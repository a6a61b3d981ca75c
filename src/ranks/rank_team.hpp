#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "core/partition/collective.hpp"
#include "loaders/partition/partition.hpp"
#include "loaders/partition/partitioned_share.hpp"
#include "loaders/pipeline.hpp"
#include "transport/rendezvous/rendezvous.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze {

/// The ranks of which this process is one, for the loader and the run. Threads: collective() one at a time.
class RankTeam {
 public:
  explicit RankTeam(std::unique_ptr<Ranks> ranks);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  [[nodiscard]] std::uint32_t rank() const;
  [[nodiscard]] std::uint32_t world() const;
  ElasticCollective& collective();
  /// How long ranks that are alive are waited for, and by what time.
  struct Patience {
    double seconds = 0;
    std::stop_token stop;
    Timing timing;
  };
  /// The ranks that are alive agree on who they are, as ElasticCollective::agree(). Throws Interrupted once this rank is asked to stop.
  Status agree(AliveRanks& alive, const Patience& patience);
  /// Whether this rank tells the result, of the ranks in `alive` that all have it, and leaves in `alive` who of them is left. The ranks agree twice
  /// before: on who is left, of whom the lowest tells, and that all know it. From then on no other rank does, whatever becomes of that one, so there
  /// are never two results. The others wait for told_result(); where the patience ends before, the one that tells is alive and still telling. Throws
  /// Error where the others went on without this rank, and where the one that tells is lost before told_result(); Interrupted.
  bool tells_result(AliveRanks& alive, const Patience& patience);
  /// Lets the ranks that wait in tells_result() go. An interrupt changes nothing in that.
  void told_result(const Patience& patience);
  Ranks& ranks() { return *m_ranks; }
  [[nodiscard]] const Ranks& ranks() const { return *m_ranks; }

 private:
  class Agreeing;
  std::unique_ptr<Ranks> m_ranks;
  std::unique_ptr<Agreeing> m_agreeing;
};

/// A value that ranks agree on as one line, whatever names of files have in them. Of a long one its beginning and a digest of the whole: all values
/// together have to fit into an introduction.
std::string agreed_line(std::string_view text);

/// What ranks that have met take part with: the job's key, what must be alike in all, and room for what these settings ask of one another.
/// `has_key`: one was given, and not made for this meeting.
void complete_facts(RankFacts& facts, const Roster& roster, std::span<const AgreedValue> agreed, bool has_key, const ProfileSettings& settings,
                    const DatasetIndex& index);

/// Leaves this rank its part of a storage that all ranks read from.
void share_storage(ProfileSettings& settings);

/// One server of several that hold a dataset together: its loading, what this rank takes of each global mini-batch, and its cache, from which the
/// other ranks are served while this lives. Also a rank whose settings have no partition: it trains its part and asks no other rank.
/// Threads: construct and destroy on one, while no loader of the pipeline lives; the parts as they say themselves.
class RankPartition {
 public:
  struct Parts {
    RankTeam& team;            ///< outlives it
    const LoadInputs& inputs;  ///< outlive it; after share_storage(). The index is of what all ranks train
    Pipeline::Spec spec;       ///< without server, peers, rules and share, which are made here
    Timing timing;
    std::function<bool(Nanoseconds since_begin)> enough;  ///< asked at the start of each epoch: whether this rank would rather end; then all end
    double patience_seconds = 0;                          ///< how long ranks that are alive are waited for
    bool needs_all = false;                               ///< PartitionedShare::Options
  };
  /// Throws Error where there is no memory, or the settings' devices are not available.
  explicit RankPartition(Parts parts);
  ~RankPartition();
  RankPartition(const RankPartition&) = delete;
  RankPartition& operator=(const RankPartition&) = delete;

  [[nodiscard]] Pipeline& pipeline() { return *m_pipeline; }
  [[nodiscard]] PartitionedShare& share() { return *m_share; }
  /// What this server's cache holds, as the other ranks are served.
  [[nodiscard]] const HeldSamples& held() const { return m_server->held(); }
  /// Whether ranks ask one another.
  [[nodiscard]] bool asks_others() const { return m_asks_others; }

 private:
  Ranks& m_ranks;
  bool m_asks_others;
  std::shared_ptr<ServerHolder> m_server;
  std::optional<PartitionedShare> m_share;
  std::unique_ptr<PeerSource> m_emulated;
  std::optional<Pipeline> m_pipeline;
};

}  // namespace dsanalyze
