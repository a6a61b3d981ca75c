#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What a network learned in one run, so that runs can be compared: of the same seed and order, losses are the same to the last bit.
struct TrainingRecord {
  struct StepLoss {
    std::uint64_t step = 0;  ///< counts the run's global mini-batches from 0
    double loss = 0;         ///< mean over the mini-batch, before its step
    bool operator==(const StepLoss&) const = default;
  };
  struct EpochLoss {
    std::uint64_t epoch = 0;
    std::uint64_t samples = 0;  ///< trained on in this run; fewer than the others have where the run ended within the epoch
    double loss = 0;            ///< mean over these samples, each before the step that it is part of
    bool operator==(const EpochLoss&) const = default;
  };
  static constexpr std::size_t most_steps = 1000;
  static constexpr std::size_t most_epochs = 200;

  std::string precision;  ///< float, double
  std::uint32_t inputs = 0, hidden = 0, classes = 0;
  std::uint64_t parameters = 0;
  double learning_rate = 0;
  double momentum = 0;
  std::uint64_t steps = 0;          ///< made in this run
  std::vector<StepLoss> by_step;    ///< at most most_steps: of all steps, or of every 2nd, 4th, 8th, ..., the first among them
  std::vector<EpochLoss> by_epoch;  ///< of more than most_epochs the first and the last ones
};

// What a profile says of several jobs on one server, in its full run.

/// How a job, a trial of a search or a rank ended.
enum class JobEnd : std::uint8_t {
  none,  ///< it takes part
  finished,
  stopped,  ///< a trial that lost
  left,
  died,
  garbage,  ///< it was put out, for it wrote garbage over what it shares
  refused,
  lost  ///< a rank that died, or was cut off
};
constexpr std::array<const char*, 8> names_of(JobEnd) { return {"attached", "finished", "stopped", "left", "died", "put-out", "refused", "lost"}; }

struct JobEpochRecord {
  std::uint64_t epoch = 0;
  double seconds = 0;
  std::uint64_t samples = 0;           ///< trained on by the job
  std::string digest;                  ///< of the set of these samples, whatever their order
  std::uint64_t samples_prepared = 0;  ///< by the job; coordinated jobs share the work
  // Of its own fetches, for whichever job; absent where nothing can tell, and in older records.
  std::optional<std::uint64_t> cache_hits{};
  std::optional<std::uint64_t> cache_misses{};
  std::optional<Bytes> requested_bytes{};
  std::optional<Bytes> storage_bytes{};
};

struct JobRecord {
  int job = 0;                ///< counts from 0
  JobEnd end = JobEnd::died;  ///< finished, stopped, died or refused
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;  ///< mean, first epoch apart
  double seconds = 0;
  std::uint64_t samples = 0;  ///< trained on
  std::uint64_t samples_failed = 0;
  std::uint64_t samples_prepared = 0;  ///< by the job
  std::uint64_t cache_hits = 0;        ///< of its own fetches, as misses and bytes are
  std::uint64_t cache_misses = 0;
  Bytes requested_bytes = 0;           ///< that it asked of storage
  std::optional<Bytes> storage_bytes;  ///< that reached the device for it; absent where nothing can tell
  double first_batch_seconds = 0;
  double stall_fraction = 0;  ///< of its time, in which its accelerators waited for a batch; first epoch apart
  std::vector<JobEpochRecord> epochs;
  std::optional<TrainingRecord> training;
  std::optional<double> batch_copy_cpu_seconds;  ///< of a core, for the copies of its batches; absent where it makes none
  std::optional<int> trial;                      ///< the last one that it ran, of a search
  std::optional<double> speed = std::nullopt;    ///< of its accelerators, as a factor of the rate that the settings have; absent where all are 1
};
/// As a result has it in "jobs", and back. Throws UsageError that names the field.
std::string to_json(const JobRecord& job);
JobRecord job_from_json(std::string_view text, const std::string& source);

/// How often a sample was prepared for one use of it by each job, mean: 1 when once for all, the number of jobs when by each for itself. From the
/// epochs that all jobs trained to their end, where they say what they prepared; else from `prepared`, of all processes, over what the job that got
/// furthest trained on, which counts what was prepared ahead too. 0 where nothing was trained.
double preparations_per_sample(const std::vector<JobRecord>& jobs, std::uint64_t prepared);

/// What a dependent group drew, and what it kept.
struct ShareDependentRecord {
  std::uint64_t rounds = 0;              ///< of draws
  std::uint64_t samples_drawn = 0;       ///< once for each job that a sample was given to
  std::uint64_t samples_prepared = 0;    ///< that were begun
  std::uint64_t samples_from_store = 0;  ///< of those drawn: that had been prepared before, for others
  std::string policy;                    ///< refcnt, lru
  std::uint64_t store_samples = 0;       ///< that are kept at most
  std::uint64_t samples_in_flight = 0;   ///< that are fetched and prepared at once, at most
  Bytes store_bytes = 0;                 ///< of memory, of those kept and in flight
};

/// What the fastest of jobs that draw dependently took, while it ran: the first that had all its samples, or the one that drew most.
struct FastestJobRecord {
  int job = 0;
  std::uint64_t samples_drawn = 0;     ///< by it
  double preparations_per_sample = 0;  ///< that the coordinator began for all jobs meanwhile, over these samples
  double independent_per_sample = 0;   ///< the same, had each job prepared its own: what all drew meanwhile, over these samples
};

/// What the jobs had in common, and what it cost.
struct SharingRecord {
  std::string share;                                 ///< none, coordinated, dependent
  std::string producers;                             ///< of jobs that share: jobs, coordinator
  int jobs = 0;                                      ///< that were started
  std::uint64_t samples_prepared = 0;                ///< by all processes, in the whole run
  double preparations_per_sample = 0;                ///< how often a sample of an epoch was prepared, mean; 1: once for all jobs
  int prefetch_batches = 0;                          ///< beside two a job
  std::uint64_t staged_batches = 0;                  ///< prepared and in memory at once, at most, of all processes
  Bytes staged_bytes = 0;                            ///< memory of all their slots
  Bytes shared_bytes = 0;                            ///< of all segments that processes share: slots, pages, cache
  std::uint64_t taken_over_batches = 0;              ///< made by another job than the one that died
  std::uint64_t late_reports = 0;                    ///< of jobs that waited longer than ten iterations
  std::uint64_t departures = 0;                      ///< of jobs, before the run's end
  std::optional<double> handover_seconds_per_batch;  ///< what passing a batch on costs all processes together, mean; without prep and training
  std::optional<ShareDependentRecord> dependent = std::nullopt;  ///< of jobs that draw dependently
  std::optional<FastestJobRecord> fastest = std::nullopt;        ///< of the same
};

/// One configuration that a search tried.
struct SearchTrialRecord {
  int trial = 0;             ///< counts from 0
  int job = 0;               ///< that ran it
  std::uint64_t epochs = 0;  ///< that it trained
  double seconds = 0;
  std::string judged_by;      ///< "loss" (less is better) or "samples_per_s" (more is better)
  double value = 0;           ///< of the last of its epochs
  JobEnd end = JobEnd::died;  ///< as a job's
};

}  // namespace dsanalyze
