#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "core/depths.hpp"
#include "job_record.hpp"
#include "job_runs.hpp"
#include "loaders/slot_pool.hpp"
#include "profile/run_support.hpp"
#include "trial_run.hpp"

namespace dsanalyze {
namespace {

/// What the jobs know of one another.
struct Together {
  std::atomic<std::uint32_t> done{0};  ///< jobs that have trained all their epochs
  std::atomic<std::uint64_t> samples{0};
  std::atomic<bool> stop{false};
  std::optional<TrialMeeting> meeting;  ///< in a search
  std::mutex mutex;
  std::exception_ptr error;
};

/// What one job did, and what its storage meter saw in each of its epochs.
struct JobRun {
  JobRecord record;
  std::vector<EpochTotals> epochs;
};

/// One job: a loader and accelerators of its own, on the server of all. Goes on after its epochs until all have done theirs, so that none of them
/// ever has more of the server than its share; in a search until its last trial ends.
JobRun run_independent_job(const ProfileInputs& inputs, const Pipeline::Spec& spec, std::uint32_t job, Together& together, Timing timing) {
  Pipeline pipeline(inputs, spec, timing);
  const auto storage = pipeline.storage_bytes();
  auto loader = pipeline.make_loader({});
  JobBatches batches(*loader, inputs.settings.batch_copy,
                     slot_tensor(inputs, inputs.settings.batch_size).sample_bytes() * static_cast<std::size_t>(inputs.settings.batch_size), timing);
  const auto first = job * static_cast<std::uint32_t>(inputs.settings.accelerators);
  std::uint64_t counted = 0;
  int epochs = 0;
  const TrialRun plan{
      .make = [&](std::optional<int> trial) { return make_trainer(inputs, pipeline.server().devices(), first, batches, timing, trial); },
      .first_trial = together.meeting ? together.meeting->first(static_cast<int>(job)) : std::nullopt,
      .epoch_ended =
          [&](const TrialEpoch& end) {
            if (++epochs == inputs.settings.epochs) together.done.fetch_add(1);
            return together.meeting ? together.meeting->attend({static_cast<int>(job), end}, together.stop) : TrialSearch::Decision{};
          },
      .enough =
          [&](const TrainingLog& log) {
            for (; counted < log.completions.size(); ++counted)
              together.samples.fetch_add(log.completions[counted].samples, std::memory_order_relaxed);
            return together.stop.load() || (!together.meeting && together.done.load() == static_cast<std::uint32_t>(inputs.settings.jobs));
          },
  };
  const TrialRunResult run = run_trials(plan, batches, {}, timing);
  batches.stop();
  // The storage meter of real storage counts the whole process: all jobs. It is read once, by who started them.
  const auto own = inputs.settings.storage == Seam::real ? std::nullopt : storage();
  JobRecord record = record_job(inputs, run.log, batches, *run.trainer, {loader.get(), own, pipeline.engine().requested()});
  record.trial = run.trial;
  return {std::move(record), loader->epochs()};
}

/// The meter of real storage counts the whole process. In the time of one job's epoch it sees what all jobs read meanwhile: what an epoch of all took
/// is the mean over the jobs, as its time is.
void add_storage_of_epochs(JobsMeasured& measured, const std::vector<std::vector<EpochTotals>>& epochs) {
  std::map<std::uint64_t, std::vector<double>> seen;
  for (std::size_t job = 0; job < epochs.size(); ++job) {
    for (const EpochTotals& each : epochs[job]) {
      const auto trained = [&each](const JobEpochRecord& epoch) { return epoch.epoch == each.epoch; };
      if (each.storage && std::ranges::any_of(measured.jobs[job].epochs, trained)) seen[each.epoch].push_back(static_cast<double>(*each.storage));
    }
  }
  for (const auto& [epoch, bytes] : seen) measured.server_epochs[epoch].storage_bytes = static_cast<Bytes>(std::llround(mean(bytes)));
}

/// The job's own order and augmentation, and its share of the cores.
ProfileInputs job_inputs(const RunContext& context, std::uint32_t job) {
  ProfileInputs inputs = context.inputs;
  inputs.index = context.subset;
  inputs.settings.seed = context.inputs.settings.seed + job;
  return inputs;
}

}  // namespace

JobsMeasured run_independent_jobs(RunContext& context, double seconds) {
  const ProfileSettings& settings = context.inputs.settings;
  const auto jobs = static_cast<std::uint32_t>(settings.jobs);
  make_cold(context);
  Pipeline::Spec spec = full_spec(context);
  const auto slots = static_cast<std::uint64_t>(prefetch_batches(settings) + settings.accelerators) * jobs;
  const Bytes slot_bytes = slots * SlotLayout(slot_tensor(context.inputs, settings.batch_size)).bytes;
  PageCacheLimit page_cache(context, slot_bytes + jobs * PageCacheLimit::of_a_job);
  spec.workers = workers_of_each(settings);
  spec.server = Pipeline::make_server(context.inputs, spec, settings.jobs, context.timing);
  const StorageMeter meter(context.subset->facts().root);
  const auto before = settings.storage == Seam::real ? meter.process_bytes() : std::nullopt;

  JobsMeasured measured;
  measured.jobs.resize(jobs);
  std::vector<std::vector<EpochTotals>> epochs(jobs);
  std::vector<ProfileInputs> inputs;
  for (std::uint32_t job = 0; job < jobs; ++job) inputs.push_back(job_inputs(context, job));
  Together together;
  if (settings.trials > 0) together.meeting.emplace(settings);
  std::atomic<std::uint32_t> running{jobs};
  const Nanoseconds begun = context.timing.clock->now();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t job = 0; job < jobs; ++job) {
      threads.emplace_back([&, job] {
        try {
          JobRun run = run_independent_job(inputs[job], spec, job, together, context.timing);
          measured.jobs[job] = std::move(run.record);
          measured.jobs[job].job = static_cast<int>(job);
          epochs[job] = std::move(run.epochs);
        } catch (...) {
          const std::scoped_lock lock(together.mutex);
          if (!together.error) together.error = std::current_exception();
          together.stop = true;
        }
        if (together.meeting) together.meeting->leave(static_cast<int>(job));
        running.fetch_sub(1);
      });
    }
    while (running.load() > 0) {
      const double elapsed = to_seconds(context.timing.clock->now() - begun);
      if (context.stop.stop_requested() || elapsed >= 1.5 * seconds || context.budget_spent()) together.stop = true;
      if (together.samples.load(std::memory_order_relaxed) > std::uint64_t{jobs} * context.subset->size()) page_cache.settle();
      page_cache.adjust(context.timing.clock->now());
      show_progress(context, fmt::format("full, {} jobs", jobs), begun, seconds,
                    elapsed > 0 ? static_cast<double>(together.samples.load(std::memory_order_relaxed)) / elapsed : -1);
      context.timing.waiter->sleep_until(context.timing.clock->after(0.1).at);
    }
  }
  page_cache.end();
  if (context.stop.stop_requested()) throw Interrupted();
  if (together.error) std::rethrow_exception(together.error);

  if (together.meeting) measured.trials = together.meeting->records();
  if (settings.storage == Seam::real) add_storage_of_epochs(measured, epochs);
  sum_up(context, measured, to_seconds(context.timing.clock->now() - begun));
  if (settings.storage == Seam::real) {
    const auto after = meter.process_bytes();
    if (after && before) measured.all.record.storage_bytes = *after - *before;
  }
  measured.sharing.share = job_sharing_name(settings.share);
  measured.sharing.producers = producers_name(settings.producers);
  measured.sharing.jobs = settings.jobs;
  measured.sharing.prefetch_batches = prefetch_batches(settings);
  measured.sharing.staged_batches = slots;
  measured.sharing.staged_bytes = slot_bytes;
  page_cache.report(context);
  note_rate(context, fmt::format("{} jobs, each for itself, together", jobs), measured.all.rate);
  return measured;
}

}  // namespace dsanalyze
