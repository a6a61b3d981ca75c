#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.hpp"
#include "core/index.hpp"
#include "core/records/jobs_record.hpp"
#include "core/records/result.hpp"
#include "core/records/settings.hpp"
#include "profile/training.hpp"
#include "profile/windows.hpp"

namespace dsanalyze {

/// A job's batches on their way to its accelerators: keeps account of what the job trains on. With BatchCopy::cpu each is read once by a core, into
/// memory of the job's own, as by a framework that pins or collates what it is given. Threads: as BatchSource's, next() and digest() one caller.
class JobBatches final : public BatchSource {
 public:
  /// `from` outlives it; `batch_bytes`: of a full batch's samples.
  JobBatches(BatchSource& from, BatchCopy copy, std::size_t batch_bytes, Timing timing)
      : m_from(from), m_timing(timing), m_copy(copy == BatchCopy::cpu ? batch_bytes : 0) {}

  Status next(Batch& batch, Deadline deadline) override;
  void release(ReleaseToken token) override { m_from.release(token); }
  [[nodiscard]] const std::byte* memory(const Batch& batch) const override { return m_from.memory(batch); }
  void stop() override { m_from.stop(); }
  [[nodiscard]] std::string failure() const override { return m_from.failure(); }

  struct Epoch {
    std::uint64_t samples = 0;
    SampleSetDigest digest;
  };
  [[nodiscard]] const std::map<std::uint64_t, Epoch>& epochs() const { return m_epochs; }
  [[nodiscard]] std::uint64_t failed() const { return m_failed; }
  /// Of the thread that calls next(), for the copies; absent where there are none.
  [[nodiscard]] std::optional<double> copy_cpu_seconds() const { return m_copy.empty() ? std::nullopt : std::optional(to_seconds(m_copying)); }

 private:
  BatchSource& m_from;
  Timing m_timing;
  std::vector<std::byte> m_copy;
  Nanoseconds m_copying = 0;
  std::map<std::uint64_t, Epoch> m_epochs;
  std::uint64_t m_failed = 0;
};

/// What of a job's part in loading is known where it ran.
struct JobWork {
  const Loader* loader = nullptr;      ///< nullptr where another process prepared for it
  std::optional<Bytes> storage_bytes;  ///< absent where its reads cannot be told from others', in an epoch neither
  Bytes requested_bytes = 0;
};

/// What one job did: its rate from the end of its first epoch on, or of all of it where it had no second one. Windows are not judged by what others
/// take of the CPU: the other jobs do.
JobRecord record_job(const ProfileInputs& inputs, const TrainingLog& log, const JobBatches& batches, const Trainer& trainer, const JobWork& work);

/// The number of the job that was the fastest: of those that came to the end of their run, of all where none did, it is of those with the fastest
/// accelerators, and of them it had most epochs, then most samples, then took least time from its first batch on. nullopt: there is no job.
std::optional<int> fastest_job(std::span<const JobRecord> jobs);

/// One epoch of all jobs, from what each did in it (at least one; none outlives the call). Its time is the mean of theirs and its digest theirs where
/// it is the same. What it fetched is what all of them did; absent where one that prepared for it does not say, as one that died. Threads: any.
EpochRecord epoch_of_all(std::span<const JobEpochRecord* const> parts, JobSharing share);

}  // namespace dsanalyze
