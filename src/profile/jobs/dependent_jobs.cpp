#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "child_jobs.hpp"
#include "job_record.hpp"
#include "job_runs.hpp"
#include "profile/run_support.hpp"
#include "share/dependent_run.hpp"

namespace dsanalyze {
namespace {

constexpr double left_within_seconds = 1;      ///< jobs that have ended, as the coordinator sees them
constexpr double stopped_within_seconds = 60;  ///< jobs that were told that their time is over

DependentRun::Spec dependent_spec(RunContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  DependentRun::Spec spec;
  spec.inputs = context.inputs;
  spec.inputs.index = context.subset;
  spec.pipeline = full_spec(context);
  spec.epochs = static_cast<std::uint64_t>(settings.epochs);
  spec.held = static_cast<std::uint32_t>(settings.accelerators);
  spec.together = true;
  return spec;
}

/// What the jobs drew and what was prepared for them, until the fastest had all its samples.
std::optional<FastestJobRecord> fastest_of(const DependentRun& group, const ChildJobs& children, std::span<const JobRecord> jobs) {
  const std::optional<int> fastest = fastest_job(jobs);
  if (!fastest) return std::nullopt;
  for (const GroupJobAccount& account : group.jobs()) {
    const auto drawn = children.job_of(account.process) == fastest ? group.drawn_by(account.place) : std::nullopt;
    if (!drawn) continue;
    const auto samples = static_cast<double>(drawn->drawn);
    FastestJobRecord record;
    record.job = *fastest;
    record.samples_drawn = drawn->drawn;
    record.preparations_per_sample = static_cast<double>(drawn->prepared) / samples;
    record.independent_per_sample = static_cast<double>(drawn->drawn_by_all) / samples;
    return record;
  }
  return std::nullopt;
}

void record_dependent(const RunContext& context, const DependentRun& group, const ChildJobs& children, ShareResult ended, JobsMeasured& measured) {
  const ProfileSettings& settings = context.inputs.settings;
  SharingRecord& sharing = measured.sharing;
  sharing.share = job_sharing_name(settings.share);
  sharing.producers = producers_name(settings.producers);
  sharing.jobs = settings.jobs;
  sharing.prefetch_batches = static_cast<int>(ended.memory.prefetch_batches);
  sharing.staged_batches = ended.memory.staged_batches;
  sharing.staged_bytes = ended.memory.staged_batches * ended.memory.slot_bytes;
  sharing.shared_bytes = ended.memory.shared_bytes;
  sharing.late_reports = ended.late_reports;
  sharing.departures = group.counts().departures;
  sharing.dependent = std::move(ended.dependent);
  sharing.fastest = fastest_of(group, children, measured.jobs);
  measured.all.record.slot_bytes = sharing.staged_bytes;
}

/// Of those that ended well: who did not come to the end of its last epoch.
void note_unfinished(RunContext& context, const std::vector<JobRecord>& jobs) {
  const auto epochs = static_cast<std::size_t>(context.inputs.settings.epochs);
  const auto unfinished =
      std::ranges::count_if(jobs, [&](const JobRecord& job) { return job.end == JobEnd::finished && job.epochs.size() < epochs; });
  if (unfinished == 0) return;
  context.find(Finding::Severity::warning, "jobs-cut-short",
               fmt::format("{} of {} jobs were stopped before the end of their {} epochs, because the time budget was over. What sharing saved is of "
                           "the epochs until then; pass a longer --time-budget, a smaller --subset or fewer --epochs.",
                           unfinished, jobs.size(), epochs));
}

}  // namespace

JobsMeasured run_dependent_jobs(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  if (!context.inputs.start_job) throw Error("jobs that draw dependently are processes, and this program gave no way to start them");
  make_cold(context);
  DependentRun group(dependent_spec(context), context.timing, [&context](const GroupEvent& event) {
    if (event.kind == GroupEvent::Kind::died || event.kind == GroupEvent::Kind::garbage) context.events.note(event.text);
  });
  const StagingFacts& staging = group.terms().staging;
  PageCacheLimit page_cache(context, static_cast<Bytes>(settings.jobs) * (staging.staged_bytes() + PageCacheLimit::of_a_job));

  JobsMeasured measured;
  const Nanoseconds begun = context.timing.clock->now();
  ChildJobs children(
      context.inputs, [&group] { return group.connect(); }, context.timing);
  for (int job = 0; job < settings.jobs; ++job) children.start({job, speed_of_job(settings, job), std::nullopt});
  bool began = false;
  JobsDeadline deadline;
  while (children.running() > 0) {
    children.look(context.timing.clock->after(0.1));
    static_cast<void>(group.wait_over(Deadline{0}));  // throws what keeps the coordinator from preparing
    if (context.stop.stop_requested()) throw Interrupted();
    if (!began && children.all_among(group.jobs())) {
      group.begin();
      began = true;
    }
    const Nanoseconds now = context.timing.clock->now();
    if (group.state().opened_epochs > 1) page_cache.settle();
    page_cache.adjust(now);
    const double elapsed = to_seconds(now - begun);
    if (!deadline.is_set() && (elapsed >= 1.5 * seconds || context.budget_spent())) {
      group.begin();  // one that has not come by now is waited for no more
      children.stop_all();
      deadline.set(context.timing.clock->after(stopped_within_seconds));
    }
    if (deadline.expires(now, children.running())) {
      context.distrust("jobs-did-not-end", did_not_end_text(children.running()));
      children.kill_all();
    }
    show_progress(context, fmt::format("full, {} dependent jobs, epoch {}", settings.jobs, std::max<std::uint64_t>(group.state().opened_epochs, 1)),
                  begun, seconds);
  }
  page_cache.end();
  static_cast<void>(group.wait_over(context.timing.clock->after(left_within_seconds)));  // it has seen them all go
  const double took = to_seconds(context.timing.clock->now() - begun);
  ShareResult ended = group.finish();
  const GroupServer::Prepared prepared = group.prepared();
  measured.jobs = children.records();
  if (!settings.job_speeds.empty()) {
    for (JobRecord& job : measured.jobs) job.speed = speed_of_job(settings, job.job);
  }
  measured.sharing.samples_prepared = prepared.samples;
  measured.all.record.cache_hits = prepared.cache_hits;
  measured.all.record.cache_misses = prepared.cache_misses;
  measured.all.record.requested_bytes = prepared.requested_bytes;
  sum_up(context, measured, took);
  measured.all.record.storage_bytes = prepared.storage_bytes;
  for (const std::string& error : children.errors()) context.distrust("job-failed", error);
  record_dependent(context, group, children, std::move(ended), measured);
  note_unfinished(context, measured.jobs);
  page_cache.report(context);
  note_rate(context, fmt::format("{} dependent jobs together", settings.jobs), measured.all.rate);
  return measured;
}

}  // namespace dsanalyze
