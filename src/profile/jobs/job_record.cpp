#include "job_record.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "base/clock.hpp"

namespace dsanalyze {
namespace {

/// Of each epoch that a log saw to its end.
std::map<std::uint64_t, Nanoseconds> epoch_ends(const TrainingLog& log) {
  std::map<std::uint64_t, Nanoseconds> ends;
  for (const BatchCompletion& completion : log.completions) {
    if (completion.last_of_epoch) ends[completion.epoch] = completion.end;
  }
  return ends;
}

void record_job_epochs(JobRecord& record, const TrainingLog& log, const JobBatches& batches, const JobWork& work) {
  std::map<std::uint64_t, std::uint64_t> prepared;
  std::map<std::uint64_t, EpochTotals> settled;
  if (work.loader != nullptr) {
    for (const EpochPrepared& each : work.loader->prepared()) prepared[each.epoch] = each.samples;
    for (EpochTotals& each : work.loader->epochs()) settled.emplace(each.epoch, std::move(each));
  }
  Nanoseconds begin = log.begun;
  for (const auto& [epoch, end] : epoch_ends(log)) {
    const auto seen = batches.epochs().find(epoch);
    if (seen == batches.epochs().end()) continue;
    JobEpochRecord& each = record.epochs.emplace_back();
    each = {epoch, to_seconds(end - begin), seen->second.samples, seen->second.digest.text(), prepared[epoch]};
    if (const auto totals = settled.find(epoch); totals != settled.end()) {
      each.cache_hits = totals->second.hits;
      each.cache_misses = totals->second.misses;
      each.requested_bytes = totals->second.requested;
      if (work.storage_bytes) each.storage_bytes = totals->second.storage;
    } else if (work.loader == nullptr) {
      each.cache_hits = each.cache_misses = each.requested_bytes = 0;
      if (work.storage_bytes) each.storage_bytes = 0;
    }
    begin = end;
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

}  // namespace dsanalyze
