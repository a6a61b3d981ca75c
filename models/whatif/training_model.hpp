#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/records/result.hpp"
#include "core/records/whatif_result.hpp"
#include "whatif.hpp"

namespace dsanalyze {

/// What the closed form knows of a launched training and its own loader. Rates are those of all ranks together, in samples/s; times are seconds a
/// sample where their names say no other.
struct TrainingModel {
  /// P as it was drained.
  struct Point {
    int workers = 0;
    double samples_per_s = 0;
    double error = 0;  ///< half of its 95 % interval over its value
  };
  int ranks = 1;
  int workers = 0;                     ///< num_workers of each rank
  double cores = 1;                    ///< that all processes may use
  std::vector<Point> prep;             ///< workers rising, at least one
  std::optional<double> worker_cpu;    ///< CPU time of the workers; nothing: not measured
  double process_cpu = 0;              ///< CPU time in which the training process takes a sample over, all threads
  double thread_cpu = 0;               ///< of it, of the thread that trains
  std::optional<double> training_cpu;  ///< CPU time of training alone; nothing: not measured
  double ingestion = 0;                ///< G
  double ingestion_error = 0;
  double step_samples = 1;      ///< of all ranks
  double outside_seconds = 0;   ///< of a step: what no accelerator makes shorter
  double delivery_seconds = 0;  ///< of a step: taking over a batch that is ready
  double found = 0;             ///< the full run
  Interval ci95_found;
  bool waits_for_storage = false;  ///< the training as found
  bool reads_storage = false;      ///< the same, to any part
  bool shares_cores = false;       ///< the CPU trains
  double run_error = 0;            ///< what another run adds, as a share
  std::optional<double> epoch_samples;
};

/// Throws UsageError when the profile is of no launched training, or lacks G, P or the full run (says how to get it).
TrainingModel training_model(const ProfileResult& profile);

/// A changed training. Absent: as found.
struct TrainingChange {
  std::optional<int> workers{};
  std::optional<double> cores{};
  std::optional<double> speed{};  ///< of the accelerators, a factor
};

/// What it reaches.
struct TrainingRates {
  enum class Limit { workers, cores, process };
  double prep = 0;  ///< P
  Interval ci95_prep;
  Limit prep_limit = Limit::workers;
  double ingestion = 0;  ///< what the steps could take if every batch were ready
  Interval ci95_ingestion;
  double samples_per_s = 0;
  Interval ci95;
  std::string bottleneck;  ///< gpu, cpu, io
  std::string detail;      ///< WhatIfAnswer::detail
  bool too_close = false;  ///< which is the bottleneck is inconclusive
  double extrapolation = 1;
};

/// The rule, of R ranks with n workers each on N cores, where a sample takes a worker t seconds, of which it computes c, and the training process p
/// to take it over:
///   P = min(R n / t, N / (c + p), R / p), corrected at the measured points to what was measured there (between them straight over log n, among the
///       points of the same limit);
///   steps = B / (outside + (B / G - outside) / speed + delivery) for B samples a step;
///   rate = min(P, steps, N / (c + p + CPU time of training)); without workers 1 / (1/P + 1/steps), as both take turns.
/// Where training takes CPU time and the cores are nearly used up, the rate's low end goes toward that of taking turns: who gets a core then is not
/// known. Pure. Throws UsageError for fewer than 0 workers, no cores, and for other cores where CPU times were not measured.
TrainingRates rates_of(const TrainingModel& model, const TrainingChange& change);

/// Answers as answer() gives them of a RateModel: first the training unchanged, then each change, the best first; speedups are over the training as
/// found. Of `question`, workers, cores, accelerator_speeds, find (workers, cores) and combine count. Throws UsageError for the rest, with the
/// reason.
WhatIfResult answer(const TrainingModel& model, const WhatIfQuestion& question);

/// The fewest workers with which the training is as fast as with any number; nothing where it would not surely be faster by a tenth or more.
/// Without `check`, which is the caller's.
std::optional<FixRecord> fix_of(const TrainingModel& model);

/// "prep", "GPU", ...: a bottleneck of TrainingRates for people.
std::string bottleneck_words(const TrainingRates& rates, bool cpu_trains);

}  // namespace dsanalyze
