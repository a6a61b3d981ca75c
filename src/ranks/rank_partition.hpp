#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "loaders/partition/partition.hpp"
#include "loaders/partition/partitioned_share.hpp"
#include "loaders/pipeline.hpp"
#include "rank_team.hpp"

namespace dsanalyze {

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
  };
  /// Throws Error where there is no memory, or the settings' devices cannot be had.
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
