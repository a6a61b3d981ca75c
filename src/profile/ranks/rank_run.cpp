#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "profile/jobs/job_runs.hpp"
#include "profile/observer.hpp"
#include "profile/pilot.hpp"
#include "profile/run_support.hpp"
#include "rank_runs.hpp"
#include "ranks/rank_team.hpp"

namespace dsanalyze {
namespace {

constexpr double network_seconds = 1.5;

/// What rank 0 has chosen.
struct ChosenRun {
  std::uint64_t subset_samples = 0;
  double seconds = 0;
};

/// `epochs`: that the others trained.
std::string lost_text(const PartitionedShare::Lost& lost, std::uint64_t epochs) {
  const std::string what =
      lost.share.empty() ? ", and no sample of that epoch with it"
                         : fmt::format(": its {} samples of that epoch are not known to be trained (\"partition\".\"lost\" in the result names them)",
                                       format_number(static_cast<double>(lost.share.size())));
  return fmt::format("rank {} was lost in epoch {}{}{}.", lost.rank, lost.epoch, what,
                     lost.epoch + 1 < epochs ? "; the others went on with the next epoch as all there are" : "");
}

PartitionRecord partition_record(const RunContext& context, const PartitionedShare::Account& account) {
  const ProfileSettings& settings = context.inputs.settings;
  PartitionRecord record;
  record.partition = partition_mode_name(settings.partition);
  record.balance_from = balance_from_name(settings.balance_from);
  record.storage_scope = storage_scope_name(settings.storage_scope);
  record.world = settings.world;
  record.nowhere_samples = account.nowhere_samples;
  record.nowhere_bytes = account.nowhere_bytes;
  record.balance_traffic = account.balance_traffic;
  for (const PartitionedShare::Lost& lost : account.lost) record.lost.push_back({static_cast<int>(lost.rank), lost.epoch, lost.share});
  return record;
}

/// All ranks that are alive stand here.
void meet_again(const RunContext& context, AliveRanks& alive) {
  const Status status = agree_or_stop(context, alive);
  if (!status.ok()) throw not_all_came(*context.inputs.team, "the end of the full run", status);
}

/// What this rank's part of the run was like.
struct RankTraining {
  Measured own;
  TrainingLog log;
  std::uint64_t epochs = 0;
};

/// A rank that the others went on without says so, whatever else that brought to an end.
template <typename Enough>
TrainingLog train_as_a_rank(const RunContext& context, BatchSource& batches, Trainer& trainer, const Enough& enough) {
  try {
    return train(batches, trainer, enough, context.stop, context.timing);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    RankTeam& team = *context.inputs.team;
    if (team.collective().given_up().empty()) throw;
    throw not_all_came(team, "the full run", {StatusCode::io, 0});
  }
}

/// The whole run of this rank, measured.
RankTraining train_measured(RunContext& context, const ProfileInputs& inputs, Pipeline& pipeline, Loader& loader, const PartitionedShare& share,
                            double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  const auto storage = pipeline.storage_bytes();
  const auto before = storage();
  const Nanoseconds begun = context.timing.clock->now();
  TeamTrainer trainer(inputs, pipeline.server().devices(), loader, rank_patience(context), context.timing);
  Observer observer(loader, storage, inputs.host, context.timing);
  RankTraining training;
  std::size_t seen = 0;
  Nanoseconds next_look = 0;
  training.log = train_as_a_rank(context, loader, *trainer, [&](const TrainingLog& so_far) {
    for (; seen < so_far.completions.size(); ++seen) {
      if (so_far.completions[seen].last_of_epoch) training.epochs = so_far.completions[seen].epoch + 1;
    }
    if (const Nanoseconds now = context.timing.clock->now(); now >= next_look) {
      next_look = now + nanoseconds_per_second;
      show_progress(context, fmt::format("full, {} ranks, epoch {}", share.ranks(), training.epochs + 1), begun, seconds);
    }
    return false;
  });
  observer.stop();

  Measured& own = training.own;
  own.record = record_run("full", context, pipeline, loader, observer, training.log);
  record_accelerators(own.record, settings, training.log, *trainer);
  own.record.requested_bytes = pipeline.engine().requested();
  const auto after = storage();
  if (after && before) own.record.storage_bytes = *after - *before;
  WindowedRate rate;
  if (const Nanoseconds steady = training.log.steady_begin(); steady > training.log.begun)
    rate = windowed_rate(training.log.progress(), observer.cpu(), steady, training.log.completions.back().end, inputs.host, JudgeCpu::no);
  own.rate = record_rate(context, "full", rate, mean_sample_bytes(context), "cold start, everything on, first epoch apart");
  take_rate(context, own);
  return training;
}

void note_losses(RunContext& context, const PartitionedShare::Account& account, std::uint64_t epochs) {
  for (const PartitionedShare::Lost& lost : account.lost) context.find(Finding::Severity::warning, "rank-lost", lost_text(lost, epochs));
  if (epochs >= static_cast<std::uint64_t>(context.inputs.settings.epochs)) return;
  context.find(Finding::Severity::warning, "fewer-epochs",
               fmt::format("run \"full\" ended after {} epochs of {}: the time budget was over.", epochs, context.inputs.settings.epochs));
}

}  // namespace

Error not_all_came(RankTeam& team, std::string_view where, Status status) {
  const std::string given_up = team.collective().given_up();
  if (!given_up.empty()) return Error(fmt::format("rank {} of {} cannot go on: {}", team.rank(), team.world(), given_up));
  return Error(fmt::format("the ranks did not all come to {} ({})", where, status_name(status.code)));
}

double rank_patience(const RunContext& context) { return seconds_for_ranks(context.inputs.settings); }

Status agree_or_stop(const RunContext& context, AliveRanks& alive) {
  return context.inputs.team->agree(alive, {rank_patience(context), context.stop, context.timing});
}

void follow_rank_0(RunContext& context, double& seconds) {
  RankTeam& team = *context.inputs.team;
  AliveRanks alive(team.world());
  const ChosenRun mine{context.subset->size(), seconds};
  std::vector<ChosenRun> all(team.world());
  const Status status = tell_together(
      alive, [&] { return agree_or_stop(context, alive); },
      [&] {
        return team.collective().gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                                        context.timing.clock->after(rank_patience(context)));
      });
  if (!status.ok()) throw not_all_came(team, "the full run", status);
  if (!alive.alive(0)) {
    std::vector<std::uint32_t> gone;
    for (std::uint32_t rank = 0; rank < team.world(); ++rank) {
      if (!alive.alive(rank)) gone.push_back(rank);
    }
    throw Error(fmt::format("rank 0 was lost before the ranks' run together, for which it was to measure its server (lost: rank {})",
                            fmt::join(gone, ", rank ")));
  }
  if (team.rank() == 0) return;
  seconds = all[0].seconds;
  context.subset = draw_subset(context.inputs, all[0].subset_samples);
  context.subset_cache_bytes = static_cast<Bytes>(std::llround(context.plan.cache_fraction * static_cast<double>(context.subset->bytes())));
}

namespace {

RanksMeasured run_with_others(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  RankTeam& team = *context.inputs.team;
  follow_rank_0(context, seconds);
  make_cold(context);
  ProfileInputs inputs = context.inputs;
  inputs.index = context.subset;
  share_storage(inputs.settings);
  RankPartition partition({team, inputs, full_spec(context), context.timing,
                           [&](Nanoseconds running) { return to_seconds(running) >= 1.5 * seconds || context.budget_spent(); },
                           rank_patience(context)});
  Pipeline& pipeline = partition.pipeline();
  PartitionedShare& share = partition.share();
  auto loader = pipeline.make_loader({.epochs = static_cast<std::uint64_t>(settings.epochs)});
  const RankTraining training = train_measured(context, inputs, pipeline, *loader, share, seconds);

  RanksMeasured measured;
  AliveRanks alive(team.world());
  meet_again(context, alive);  // no rank asks any more: what was served is what the run needed
  RankRecord mine = record_rank(context, training.own, pipeline, *loader, share.account(), training.log);
  mine.training = training.own.record.training;
  meet_again(context, alive);
  if (partition.asks_others()) measured.network = measure_network(context, pipeline, share, partition.held(), network_seconds);
  measured.ranks = gather_records(context, alive, mine);
  share.ended(alive);
  measured.partition = partition_record(context, share.account());
  measured.partition.ranks_at_end = static_cast<int>(alive.count());
  sum_up_ranks(context, measured, training.own);
  note_losses(context, share.account(), training.epochs);
  report_failures(context, "full", *loader);
  note_rate(context, fmt::format("{} ranks together", measured.ranks.size()), measured.all.rate);
  return measured;
}

}  // namespace

RanksMeasured run_ranks(RunContext& context, double seconds) {
  try {
    return run_with_others(context, seconds);
  } catch (const Error&) {
    // An interrupt often reaches all ranks: that the others are gone is its consequence.
    if (context.stop.stop_requested()) throw Interrupted();
    throw;
  }
}

}  // namespace dsanalyze
