#include "job_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <tuple>

#include "base/clock.hpp"
#include "job_runs.hpp"
#include "profile/run_support.hpp"

namespace dsanalyze {
namespace {

/// When the job began to train. An accelerator takes up a batch when it was ready, and that may be before the job asked for its first.
Nanoseconds training_begun(const TrainingLog& log) {
  Nanoseconds begun = log.begun;
  for (const BatchCompletion& completion : log.completions) begun = std::min(begun, completion.begin);
  return begun;
}

void record_job_epochs(JobRecord& record, const TrainingLog& log, const JobBatches& batches, const JobWork& work) {
  std::map<std::uint64_t, std::uint64_t> prepared;
  std::map<std::uint64_t, EpochTotals> settled;
  if (work.loader != nullptr) {
    for (const EpochPrepared& each : work.loader->prepared()) prepared[each.epoch] = each.samples;
    for (EpochTotals& each : work.loader->epochs()) settled.emplace(each.epoch, std::move(each));
  }
  Nanoseconds begin = training_begun(log);
  for (const auto& [epoch, end] : log.epoch_ends()) {
    const auto seen = batches.epochs().find(epoch);
    if (seen == batches.epochs().end()) continue;
    JobEpochRecord& each = record.epochs.emplace_back();
    each = {epoch, to_seconds(std::max<Nanoseconds>(end - begin, 0)), seen->second.samples, seen->second.digest.text(), prepared[epoch]};
    if (const auto totals = settled.find(epoch); totals != settled.end()) {
      each.cache_hits = totals->second.hits;
      each.cache_misses = totals->second.misses;
      each.requested_bytes = totals->second.requested;
      if (work.storage_bytes) each.storage_bytes = totals->second.storage;
    } else if (work.loader == nullptr) {
      each.cache_hits = each.cache_misses = each.requested_bytes = 0;
      if (work.storage_bytes) each.storage_bytes = 0;
    }
    begin = std::max(begin, end);
  }
}

}  // namespace

JobRecord record_job(const ProfileInputs& inputs, const TrainingLog& log, const JobBatches& batches, const Trainer& trainer, const JobWork& work) {
  JobRecord record;
  record.end = JobEnd::finished;
  record.seconds = to_seconds(log.ended - log.begun);
  record.first_batch_seconds = log.first_batch > 0 ? to_seconds(log.first_batch - log.begun) : 0;
  record.samples_failed = batches.failed();
  record.batch_copy_cpu_seconds = batches.copy_cpu_seconds();
  record.training = trainer.training();
  for (const BatchCompletion& completion : log.completions) record.samples += completion.samples;
  if (work.loader != nullptr) {
    const LoaderTotals totals = work.loader->totals();
    record.samples_prepared = totals.prep.samples;
    record.cache_hits = totals.hits;
    record.cache_misses = totals.misses;
  }
  record.requested_bytes = work.requested_bytes;
  record.storage_bytes = work.storage_bytes;
  record_job_epochs(record, log, batches, work);
  if (log.completions.empty()) return record;

  const WindowedRate rate = windowed_rate(log.progress(), {}, log.steady_begin(), log.completions.back().end, inputs.host, JudgeCpu::no);
  record.samples_per_s = rate.estimate.value;
  record.ci95_samples_per_s = rate.estimate.ci95;
  if (rate.estimate.value > 0) record.epoch_seconds = static_cast<double>(inputs.index->size()) / rate.estimate.value;
  record.stall_fraction = log.steady_stall_fraction(inputs.settings.accelerators);
  return record;
}

Status JobBatches::next(Batch& batch, Deadline deadline) {
  const Status status = m_from.next(batch, deadline);
  if (!status.ok()) return status;
  const std::byte* const slot = m_from.memory(batch);
  Epoch& epoch = m_epochs[batch.epoch];
  epoch.samples += batch.count;
  m_failed += batch.failed;
  for (std::uint32_t i = 0; i < batch.count; ++i) {
    SampleId id = 0;
    std::memcpy(&id, slot + batch.ids_offset + i * sizeof id, sizeof id);
    epoch.digest.add(id);
  }
  if (m_copy.empty()) return status;
  const Nanoseconds before = thread_cpu_time();
  std::memcpy(m_copy.data(), slot + batch.samples_offset, std::min(m_copy.size(), batch.count * batch.tensor.sample_bytes()));
  m_copying += thread_cpu_time() - before;
  batch.ready_at = m_timing.clock->now();
  return status;
}

namespace {

template <typename Value>
void add_known(std::optional<Value>& sum, const std::optional<Value>& more, bool first) {
  sum = first || !sum ? (first ? more : std::nullopt) : (more ? std::optional<Value>(*sum + *more) : std::nullopt);
}

using Parts = std::span<const JobEpochRecord* const>;

/// Adds up what the jobs fetched in an epoch; nothing where one of them does not say.
void add_fetches(EpochRecord& record, Parts parts) {
  bool first = true;
  for (const JobEpochRecord* part : parts) {
    add_known(record.cache_hits, part->cache_hits, first);
    add_known(record.cache_misses, part->cache_misses, first);
    add_known(record.requested_bytes, part->requested_bytes, first);
    add_known(record.storage_bytes, part->storage_bytes, first);
    first = false;
  }
}

/// The jobs that prepared an epoch for all of them. None where they prepared fewer samples than it has: a job that died made the others. None where
/// they prepared more: after a death a batch may be made twice, and what the dead job made is not known.
std::vector<const JobEpochRecord*> all_who_prepared(Parts parts) {
  std::vector<const JobEpochRecord*> who;
  std::uint64_t prepared = 0;
  std::uint64_t samples = 0;
  for (const JobEpochRecord* part : parts) {
    if (part->samples_prepared > 0) who.push_back(part);
    prepared += part->samples_prepared;
    samples = std::max(samples, part->samples);
  }
  if (prepared != samples) who.clear();
  return who;
}

void take_known(EpochRecord& record, const ServerEpoch& server) {
  if (server.cache_hits) record.cache_hits = server.cache_hits;
  if (server.cache_misses) record.cache_misses = server.cache_misses;
  if (server.requested_bytes) record.requested_bytes = server.requested_bytes;
  if (server.storage_bytes) record.storage_bytes = server.storage_bytes;
}

}  // namespace

EpochRecord epoch_of_all(std::span<const JobEpochRecord* const> parts, JobSharing share) {
  EpochRecord record;
  record.epoch = parts.front()->epoch;
  record.digest = parts.front()->digest;
  for (const JobEpochRecord* part : parts) {
    record.seconds += part->seconds / static_cast<double>(parts.size());
    record.samples += part->samples;
    if (part->digest != record.digest) record.digest.clear();
  }
  if (share == JobSharing::none) {
    add_fetches(record, parts);
  } else {
    add_fetches(record, all_who_prepared(parts));
  }
  return record;
}

void add_epochs(JobsMeasured& measured, const ProfileSettings& settings) {
  const bool of_all = settings.share == JobSharing::none && settings.trials == 0;
  std::map<std::uint64_t, std::vector<const JobEpochRecord*>> by_epoch;
  for (const JobRecord& job : measured.jobs) {
    for (const JobEpochRecord& epoch : job.epochs) by_epoch[epoch.epoch].push_back(&epoch);
  }
  for (const auto& [epoch, parts] : by_epoch) {
    if (of_all && parts.size() < measured.jobs.size()) continue;
    EpochRecord record = epoch_of_all(parts, settings.share);
    if (const auto server = measured.server_epochs.find(epoch); server != measured.server_epochs.end()) take_known(record, server->second);
    measured.all.record.epochs.push_back(record);
  }
}

namespace {

/// A job of a search ends as its last trial does.
void end_with_trials(JobsMeasured& measured) {
  for (JobRecord& job : measured.jobs) {
    const auto trial = std::ranges::find_if(measured.trials, [&job](const SearchTrialRecord& each) { return each.trial == job.trial; });
    if (job.end == JobEnd::finished && trial != measured.trials.end()) job.end = trial->end;
  }
}

}  // namespace

std::optional<int> fastest_job(std::span<const JobRecord> jobs) {
  const auto rank = [](const JobRecord& job) {
    return std::tuple(job.end == JobEnd::finished, job.speed.value_or(1), job.epochs.size(), job.samples, job.first_batch_seconds - job.seconds);
  };
  const auto fastest = std::ranges::max_element(jobs, {}, rank);
  return fastest == jobs.end() ? std::nullopt : std::optional(fastest->job);
}

void sum_up(RunContext& context, JobsMeasured& measured, double seconds) {
  end_with_trials(measured);
  RunRecord& run = measured.all.record;
  run.name = "full";
  run.seconds = seconds;
  run.fetch_concurrency = context.inputs.settings.fetch_concurrency;
  WindowedRate rate;
  bool first = true;
  for (const JobRecord& job : measured.jobs) {
    // Jobs of one server speed up and slow down together: their intervals add up.
    rate.estimate.value += job.samples_per_s;
    rate.estimate.ci95.low += job.ci95_samples_per_s.low;
    rate.estimate.ci95.high += job.ci95_samples_per_s.high;
    run.samples += job.samples;
    run.samples_failed += job.samples_failed;
    run.cache_hits += job.cache_hits;
    run.cache_misses += job.cache_misses;
    run.requested_bytes += job.requested_bytes;
    add_known(run.storage_bytes, job.storage_bytes, std::exchange(first, false));
    run.first_batch_seconds = std::max(run.first_batch_seconds, job.first_batch_seconds);
    measured.sharing.samples_prepared += job.samples_prepared;
  }
  measured.sharing.preparations_per_sample = preparations_per_sample(measured.jobs, measured.sharing.samples_prepared);
  rate.kept = measured.jobs.empty() ? 0 : 1;
  add_epochs(measured, context.inputs.settings);
  measured.all.rate = record_rate(context, "full", rate, mean_sample_bytes(context),
                                  fmt::format("{} jobs together, cold start, everything on, first epoch apart", measured.jobs.size()));
  take_rate(context, measured.all);
  if (measured.all.rate.samples_per_s > 0)
    run.epoch_seconds = static_cast<double>(measured.jobs.size()) * context.subset->size() / measured.all.rate.samples_per_s;
}

}  // namespace dsanalyze
