#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "result.hpp"

namespace dsanalyze {

// "dsanalyze.share/1": what a group of jobs shared, as its coordinator saw it.

/// How jobs share that do not go in step.
inline constexpr std::array share_term_sharings = {"dependent"};

/// What the group had agreed on.
struct ShareTermsRecord {
  std::uint32_t jobs = 1;  ///< that take part at once, at most
  std::string producers;   ///< jobs, coordinator
  std::uint32_t batch_size = 0;
  std::uint64_t batches_per_epoch = 0;
  std::uint64_t samples = 0;                        ///< of an epoch
  std::uint64_t epochs = 0;                         ///< after which the group ends by itself; 0: none
  std::uint32_t held = 1;                           ///< batches that a job may hold at once
  std::uint64_t seed = 0;                           ///< of order and augmentation
  std::string prep;                                 ///< in words
  std::vector<std::int64_t> shape;                  ///< of a full batch
  std::string dtype;                                ///< uint8, float32
  std::string cache;                                ///< the raw cache: minio, none, ...
  Bytes cache_bytes = 0;                            ///< of it, at most
  std::optional<std::string> share = std::nullopt;  ///< dependent: these are a job's terms that demands nothing; absent of jobs that go in step
};

/// A job that was let in. What it took and prepared is as it says itself.
struct ShareJobRecord {
  std::uint32_t place = 0;  ///< another's once it has gone
  std::int64_t process = 0;
  std::uint64_t first_epoch = 0;  ///< that it took part in
  JobEnd end = JobEnd::none;  ///< left, died, garbage, none where it took part when the group ended, or finished where it came again and had all its
                              ///< epochs before
  std::uint64_t batches_taken = 0;
  std::uint64_t samples_taken = 0;
  std::uint64_t batches_prepared = 0;
  std::uint64_t samples_prepared = 0;
  std::uint64_t batches_taken_over = 0;  ///< of those prepared: that a job which went was to prepare
  Bytes requested_bytes = 0;             ///< that it asked of storage
};

/// A command that was started as a job.
struct ShareCommandRecord {
  int job = 0;                     ///< counts from 0: its DSANALYZE_JOB
  std::optional<int> exit_status;  ///< of one that ended by itself
  std::optional<int> signal;       ///< that ended it
  std::optional<bool> attached;    ///< whether it, or a process that it started, took part in the group; absent in older records
  std::optional<std::uint64_t> batches_taken = std::nullopt;  ///< by its jobs, as they say themselves; absent in older records
  std::optional<bool> had_all_epochs = std::nullopt;          ///< true: a job of it came again, and had had all its epochs in an earlier group
};
/// Its jobs took no batch, although some were to come.
inline bool took_nothing(const ShareCommandRecord& command) {
  return command.attached == true && command.batches_taken == 0 && command.had_all_epochs != true;
}

/// Bounded whatever the jobs do.
struct ShareMemoryRecord {
  std::uint32_t prefetch_batches = 0;
  std::uint64_t staged_batches = 0;  ///< at once, at most: (2 x jobs + prefetch), or fewer where they do not divide evenly
  Bytes slot_bytes = 0;              ///< of a batch
  Bytes constant_bytes = 0;          ///< beside the slots: board, control pages, headers
  Bytes bound_bytes = 0;             ///< staged_batches x slot_bytes + constant_bytes
  Bytes shared_bytes = 0;            ///< that all processes shared, at most; without the raw cache
};

/// How a group ended; "finished": all epochs, "left": the last job went.
inline constexpr std::array share_ends = {"finished", "left", "commands-ended", "interrupted"};

struct ShareResult {
  ToolRecord tool;
  std::string started_utc;
  DatasetRecord dataset;
  ShareTermsRecord terms;
  std::string end;  ///< one of share_ends
  double seconds = 0;
  std::uint64_t epochs = 0;  ///< that were opened
  std::vector<ShareJobRecord> jobs;
  std::uint64_t samples_prepared = 0;  ///< by the jobs, or the coordinator
  std::uint64_t batches_taken = 0;     ///< by all jobs
  std::uint64_t samples_taken = 0;
  std::uint64_t batches_taken_over = 0;
  Bytes requested_bytes = 0;       ///< asked of storage by all
  std::uint64_t late_reports = 0;  ///< of jobs that waited longer than ten iterations
  std::uint64_t refused = 0;       ///< processes that were not let in
  ShareMemoryRecord memory;
  std::optional<ShareDependentRecord> dependent = std::nullopt;
  std::vector<ShareCommandRecord> commands;  ///< empty: the jobs were started by others
};

std::string to_json(const ShareResult& result);
/// Strict: unknown and missing keys are errors. Throws UsageError that names `source` and the place.
ShareResult share_from_json(std::string_view text, const std::string& source);

}  // namespace dsanalyze
