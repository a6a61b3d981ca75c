#pragma once

#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "loaders/partition/partitioned_share.hpp"
#include "profile/runs.hpp"
#include "profile/training.hpp"

namespace dsanalyze {

/// The full run of several ranks: of all together, and of each that came to its end.
struct RanksMeasured {
  Measured all;
  std::vector<RankRecord> ranks;
  PartitionRecord partition;
  std::optional<RateRecord> network;  ///< N; of ranks that ask one another
};

/// How long ranks that are alive are waited for: what one of them does meanwhile may take the whole profile's time.
double rank_patience(const RunContext& context);
/// The ranks that are alive agree on who they are, within that time. Throws Interrupted once this one is asked to stop.
Status agree_or_stop(const RunContext& context, AliveRanks& alive);
/// Why this rank does not go on: where the others should have come, or that they went on without it.
Error not_all_came(RankTeam& team, std::string_view where, Status status);

/// What all ranks must have alike of the full run, as rank 0 has chosen it: draws the subset in the others. All that are alive come. Throws Error,
/// Interrupted.
void follow_rank_0(RunContext& context, double& seconds);
/// The full run of this rank, together with all others. All come, and all end it in the same epoch. Throws Error; Interrupted when asked to stop,
/// even where the loss of other ranks came first.
RanksMeasured run_ranks(RunContext& context, double seconds);

/// What this rank did. `measured`: its own run.
RankRecord record_rank(const RunContext& context, const Measured& measured, Pipeline& pipeline, const Loader& loader,
                       const PartitionedShare::Account& account, const TrainingLog& log);
/// Every rank's record, in rank order, of those that are alive; `alive` is who that is then. Throws Error when they are not available, Interrupted.
std::vector<RankRecord> gather_records(const RunContext& context, AliveRanks& alive, const RankRecord& mine);
/// Adds the ranks' records up, into the run of all. Epochs that all of them trained have the digest of all of their samples.
void sum_up_ranks(RunContext& context, RanksMeasured& measured, const Measured& own);

/// N: as many samples a second as this rank gets from others' caches while they all ask one another; nothing where it has no rank to ask. The loader
/// has stopped, and all ranks do it at once.
std::optional<RateRecord> measure_network(RunContext& context, Pipeline& pipeline, const PartitionRules& rules, const HeldSamples& held,
                                          double seconds);

}  // namespace dsanalyze
