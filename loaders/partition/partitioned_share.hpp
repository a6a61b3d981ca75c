#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "core/partition/assignment.hpp"
#include "core/partition/collective.hpp"
#include "core/partition/partition.hpp"
#include "core/sharing_modes.hpp"
#include "partition.hpp"

namespace dsanalyze {

/// One rank's part of a data-parallel job on several servers: which samples it trains, which it keeps, and whom it asks for the others.
/// - none: slices of each global mini-batch; each cache keeps what comes by; no peer is asked.
/// - partitioned [CoorDL, section 4.2]: in the first epoch samples are dealt so that the caches fill alike; at its end the ranks tell one
///   another what they hold, and what no rank holds and one has room for is adopted. Then slices; a miss asks the holder.
/// - locality [Yang-Cong, section V]: the same first epoch; then each trains what it holds, and what balances the parts moves.
/// Before each epoch the ranks agree on who is alive, and whether it is one more: begin_epoch() gives end when one of them has had enough. What a
/// lost rank was to train of its last epoch is trained by none; the next epoch is the survivors'. A rank may be lost while an epoch begins, too: it
/// has no part in that one.
class PartitionedShare final : public RankShare, public PartitionRules {
 public:
  struct Parts {
    std::shared_ptr<const DatasetIndex> index;
    RawCache* cache = nullptr;           ///< this rank's, made with partition_priority
    const HeldSamples* held = nullptr;   ///< what is in it
    ElasticCollective* ranks = nullptr;  ///< at the latest when the first epoch begins
    Timing timing;
  };
  struct Options {
    PartitionMode mode = PartitionMode::partitioned;
    BalanceFrom balance = BalanceFrom::peers;
    std::uint32_t rank_batch = 1;       ///< samples of a whole part: of this rank's accelerators together
    std::uint64_t seed = 1;             ///< of the order, to name what a lost rank did not train
    std::function<bool()> enough = {};  ///< asked at each epoch's begin: whether this rank would rather end; then all end
    double patience_seconds = 600;      ///< how long ranks that are alive are waited for at an epoch's begin
    bool needs_all = false;             ///< no rank goes on without another: then the epochs end, with failure(), once what was drawn is given
  };
  PartitionedShare(Parts parts, const Options& options);
  ~PartitionedShare() override;
  PartitionedShare(const PartitionedShare&) = delete;
  PartitionedShare& operator=(const PartitionedShare&) = delete;

  /// What samples that are adopted are read with; before the first epoch.
  void read_with(PartitionedEngine& engine);

  /// failure() where ranks are to begin at different places.
  Status begin_epoch(std::uint64_t epoch, std::uint64_t position) override;
  /// The next epoch is another than that which follows, on all ranks alike, each of which says so as often as the others: a loader that was stopped
  /// is followed by another. While none runs.
  void restart();
  /// Threads: any.
  [[nodiscard]] std::uint32_t ranks() const override;
  std::span<const SampleId> mine(std::span<const SampleId> global) override;
  void stop() override;
  [[nodiscard]] std::string failure() const override;

  [[nodiscard]] std::optional<std::uint32_t> ask(SampleId sample, std::uint32_t attempt) const override;
  [[nodiscard]] bool keeps(SampleId sample) const override;

  /// A rank that was lost, the last epoch in which it took part, and its share of that epoch: how much of the share it trained is not known. A rank
  /// that was lost before the first epoch has no share of it.
  struct Lost {
    std::uint32_t rank = 0;
    std::uint64_t epoch = 0;
    std::vector<SampleId> share;
  };
  /// What became of the parts. While no epoch begins: the caller has stopped the loader.
  struct Account {
    Nanoseconds begun = 0;              ///< when all ranks had come to the first epoch
    std::uint64_t adopted_samples = 0;  ///< by this rank
    Bytes adopted_bytes = 0;
    std::uint64_t nowhere_samples = 0;  ///< held by no rank: storage serves them in every epoch
    Bytes nowhere_bytes = 0;
    double balance_traffic = 0;  ///< mean share of a global mini-batch that balanced it; of locality
    std::vector<Lost> lost;
  };
  [[nodiscard]] const Account& account() const;
  /// After the last epoch, once `met` have told one another what they did: ranks that the last begin_epoch() found alive, and that are not among
  /// them, were lost in it.
  void ended(const AliveRanks& met);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
