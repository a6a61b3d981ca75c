#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "child_jobs.hpp"
#include "job_runs.hpp"
#include "profile/run_support.hpp"
#include "share/group_server.hpp"

namespace dsanalyze {
namespace {

constexpr double seen_within_seconds = 1;
constexpr double ended_within_seconds = 60;  ///< jobs that were told that no epoch follows, or that have theirs

GroupServer::Spec server_spec(RunContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  GroupServer::Spec spec;
  spec.inputs = context.inputs;
  spec.inputs.index = context.subset;
  spec.pipeline = full_spec(context);
  spec.epochs = settings.trials > 0 ? 0 : static_cast<std::uint64_t>(settings.epochs);
  return spec;
}

void note_departure(EventSink& events, const GroupEvent& event) {
  if (event.kind == GroupEvent::Kind::died || event.kind == GroupEvent::Kind::garbage) events.note(event.text);
}

/// What the jobs of a group say that they did for one another, those that died too.
void add_accounts(SharingRecord& sharing, const GroupHost& host) {
  Nanoseconds control = host.control_time();
  std::uint64_t passed_on = 0;
  for (const GroupJobAccount& job : host.accounts()) {
    sharing.taken_over_batches += job.counts.batches_taken_over;
    control += job.counts.control_time;
    passed_on = std::max(passed_on, job.counts.batches_taken);
  }
  if (passed_on > 0 && control > 0) sharing.handover_seconds_per_batch = to_seconds(control) / static_cast<double>(passed_on);
}

/// Tells each job what now. Returns how many of them go on.
std::size_t answer_all(TrialSearch& search, std::span<const TrialSearch::Standing> standings, ChildJobs& children) {
  std::size_t going_on = 0;
  const std::vector<TrialSearch::Decision> decisions = search.decide(standings);
  for (std::size_t i = 0; i < standings.size(); ++i) {
    const TrialSearch::Decision& decision = decisions[i];
    if (decision.kind != TrialSearch::Decision::Kind::stop) ++going_on;
    children.answer(standings[i].job, decision.kind == TrialSearch::Decision::Kind::go     ? std::string(job_messages::go)
                                      : decision.kind == TrialSearch::Decision::Kind::stop ? std::string(job_messages::stop)
                                                                                           : job_messages::trial(decision.trial));
  }
  return going_on;
}

}  // namespace

JobsMeasured run_coordinated_jobs(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  if (!context.inputs.start_job) throw Error("coordinated jobs are processes, and this program gave no way to start them");
  make_cold(context);
  GroupServer server(server_spec(context), context.timing, [&context](const GroupEvent& event) { note_departure(context.events, event); });
  GroupHost& host = server.host();
  const StagingFacts& staging = server.terms().staging;
  PageCacheLimit page_cache(context, staging.staged_bytes() + static_cast<Bytes>(settings.jobs) * PageCacheLimit::of_a_job);
  server.start();

  JobsMeasured measured;
  const Nanoseconds begun = context.timing.clock->now();
  ChildJobs children(
      context.inputs, [&host] { return host.connect(); }, context.timing);
  std::optional<TrialSearch> search;
  if (settings.trials > 0) search.emplace(settings);
  for (int job = 0; job < settings.jobs; ++job) {
    children.start({job, 1, search ? std::optional(search->begin(job).value_or(0)) : std::nullopt});
  }
  bool begun_by_some = false;
  std::optional<std::size_t> epoch_due;  // when no more than so many jobs run
  JobsDeadline deadline;
  while (children.running() > 0) {
    children.look(context.timing.clock->after(0.1));
    server.look();
    if (context.stop.stop_requested()) throw Interrupted();
    if (!begun_by_some && host.state().opened_epochs == 0 && children.running() < static_cast<std::size_t>(settings.jobs)) {
      // Some came to nothing before the first epoch, which waits for all: it is the others' as soon as they are in.
      begun_by_some = children.all_among(host.accounts());
      if (begun_by_some) host.begin();
    }
    if (search) {
      if (const auto standings = children.standings()) epoch_due = answer_all(*search, *standings, children);
    }
    if (epoch_due && children.running() <= *epoch_due) {
      epoch_due.reset();
      host.begin();
    }
    const Nanoseconds now = context.timing.clock->now();
    if (host.state().opened_epochs > 1) page_cache.settle();
    page_cache.adjust(now);
    const double elapsed = to_seconds(now - begun);
    if (!deadline.is_set() && (elapsed >= 1.5 * seconds || context.budget_spent())) {
      host.end();
      deadline.set(context.timing.clock->after(ended_within_seconds + elapsed));
    }
    if (deadline.expires(now, children.running())) {
      context.distrust("jobs-did-not-end", did_not_end_text(children.running()));
      children.kill_all();
    }
    show_progress(context, fmt::format("full, {} coordinated jobs, epoch {}", settings.jobs, std::max<std::uint64_t>(host.state().opened_epochs, 1)),
                  begun, seconds);
  }
  page_cache.end();
  server.stop();
  static_cast<void>(host.wait_over(context.timing.clock->after(seen_within_seconds)));  // it has seen them all go, and what they did
  add_accounts(measured.sharing, host);
  measured.jobs = children.records();
  if (search) measured.trials = search->records();
  const auto prepared = server.prepared();
  if (prepared) {
    measured.sharing.samples_prepared += prepared->samples;
    measured.all.record.cache_hits += prepared->cache_hits;
    measured.all.record.cache_misses += prepared->cache_misses;
    measured.all.record.requested_bytes += prepared->requested_bytes;
    for (const EpochTotals& each : prepared->epochs) measured.server_epochs[each.epoch] = {each.hits, each.misses, each.requested, each.storage};
  }
  sum_up(context, measured, to_seconds(context.timing.clock->now() - begun));
  if (prepared) measured.all.record.storage_bytes = prepared->storage_bytes;
  for (const std::string& error : children.errors()) context.distrust("job-failed", error);

  SharingRecord& sharing = measured.sharing;
  sharing.share = job_sharing_name(settings.share);
  sharing.producers = producers_name(settings.producers);
  sharing.jobs = settings.jobs;
  sharing.prefetch_batches = static_cast<int>(staging.prefetch);
  sharing.staged_batches = staging.window();
  sharing.staged_bytes = staging.staged_bytes();
  sharing.shared_bytes = server.most_shared_bytes();
  sharing.late_reports = server.counts().late;
  sharing.departures = server.counts().departures;
  measured.all.record.slot_bytes = sharing.staged_bytes;
  page_cache.report(context);
  note_rate(context, fmt::format("{} coordinated jobs together", settings.jobs), measured.all.rate);
  return measured;
}

}  // namespace dsanalyze
