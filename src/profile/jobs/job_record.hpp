#pragma once

#include "core/records/jobs_record.hpp"
#include "job_batches.hpp"
#include "profile/training.hpp"
#include "profile/windows.hpp"

namespace dsanalyze {

/// What of a job's part in loading is known where it ran.
struct JobWork {
  const Loader* loader = nullptr;      ///< nullptr where another process prepared for it
  std::optional<Bytes> storage_bytes;  ///< absent where its reads cannot be told from others', in an epoch neither
  Bytes requested_bytes = 0;
};

/// What one job did: its rate from the end of its first epoch on, or of all of it where it had no second one. Windows are not judged by what others
/// take of the CPU: the other jobs do.
JobRecord record_job(const ProfileInputs& inputs, const TrainingLog& log, const JobBatches& batches, const Trainer& trainer, const JobWork& work);

}  // namespace dsanalyze
