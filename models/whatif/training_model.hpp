#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/records/result.hpp"
#include "core/records/whatif_result.hpp"
#include "miss_model.hpp"
#include "training_path.hpp"
#include "whatif.hpp"

namespace dsanalyze {

/// What is known of a launched training and its own loader. Rates are those of all ranks together, in samples/s; times are seconds a sample where
/// their names say no other.
struct TrainingModel {
  /// P as it was drained.
  struct Point {
    int workers = 0;
    double samples_per_s = 0;
    double error = 0;                     ///< half of its 95 % interval over its value
    std::optional<double> cpu_seconds{};  ///< of a worker, all its threads; nothing: not measured
  };
  int ranks = 1;
  std::optional<int>
      most_workers{};  ///< that are advised, as a drain with others failed, each worker delivers all samples, or an epoch has no more batches
  int workers = 0;     ///< num_workers of each rank
  int prefetch = 2;    ///< batches ahead, of each worker
  double cores = 1;    ///< that all processes may use
  double slice_seconds = slice_on(1);
  std::vector<Point> prep;             ///< workers rising, at least one
  std::optional<double> worker_cpu;    ///< CPU time of a worker, of the fewest that were drained; nothing: not measured
  double thread_cpu = 0;               ///< CPU time in which the thread that trains takes a sample over
  double take_over = 0;                ///< in which it has a batch that lies ready: its CPU time, and waiting for a pipe
  std::optional<double> training_cpu;  ///< CPU time of training alone; nothing: not measured
  double ingestion = 0;                ///< G
  double ingestion_error = 0;
  double busy = 0;             ///< that steps take while workers are busy; 0: not measured
  double from_memory = 0;      ///< the training with its data in memory; 0: not measured, or nothing else than the full run
  double step_samples = 1;     ///< of all ranks
  double outside_seconds = 0;  ///< of a step: what no accelerator makes shorter
  double found = 0;            ///< the full run
  Interval ci95_found;
  bool waits_for_storage = false;  ///< the training as found
  bool crowded = false;            ///< other programs left its workers no core
  bool disturbed = false;          ///< they did so to prep alone, or to the training as found alone
  bool shares_cores = false;       ///< the CPU trains
  double run_error = 0;            ///< what another run adds, as a share
  /// What its loader reads, and from where. Nothing: not measured.
  struct Storage {
    std::vector<SupplyPoint> curve;  ///< S by the number of readers
    double rate = 0;                 ///< S with as many readers as there are workers
    double error = 0;                ///< half of its 95 % interval over its value
    double cache_rate = 0;           ///< C; 0: not known
    double bytes_per_sample = 0;
    Bytes dataset_bytes = 0;
    Bytes page_cache_bytes = 0;           ///< that this machine has for it
    OrderKind order = OrderKind::random;  ///< as found
    std::array<MissModel, 3> misses;      ///< by OrderKind
    double found_fraction = 0;            ///< of the bytes that the full run read, those that came from storage
  };
  std::optional<Storage> storage;
  bool epoch_unknown = false;  ///< S was measured, and what an epoch reads is not known: there is no `storage`
  std::optional<double> epoch_samples;
  TrainingPath path;  ///< path_of() the rest
};

/// Throws UsageError when the profile is of no launched training, or lacks G, P or the full run (says how to get it).
TrainingModel training_model(const ProfileResult& profile);

/// A changed training. Absent: as found.
struct TrainingChange {
  std::optional<int> workers{};
  std::optional<double> cores{};
  std::optional<double> speed{};                ///< of the accelerators, a factor
  std::optional<double> cached{};               ///< memory for the page cache over what an epoch reads
  std::optional<double> storage_bytes_per_s{};  ///< of another storage
  std::optional<double> storage_factor{};       ///< the same storage, so much faster
  std::optional<OrderKind> order{};             ///< of reading; shards: the samples packed into large files, each read in order
};

/// What it reaches.
struct TrainingRates {
  double prep = 0;  ///< P, of data in memory: as it was measured, where it was
  Interval ci95_prep;
  double delivered = 0;  ///< by the loader, while nothing trains
  Interval ci95_delivered;
  double miss_fraction = 0;         ///< of the samples, those that come from storage in the long run
  double from_memory = 0;           ///< samples_per_s where none does
  std::optional<double> storage{};  ///< S
  double ingestion = 0;             ///< G
  double ready = 0;                 ///< what the training could take if every batch were ready: the hand-over is in it
  Interval ci95_ready;
  double samples_per_s = 0;
  Interval ci95;
  std::string bottleneck;  ///< gpu, cpu, io
  std::string detail;      ///< WhatIfAnswer::detail
  bool too_close = false;  ///< which is the bottleneck is inconclusive
  double extrapolation = 1;
};

/// What a changed training reaches: its path, changed, is run with 32 draws of the measured values (run()). The interval is that of the draws, and of
/// what the path does not explain of the training as found. The bottleneck is the station whose doubling raises the rate most; it is inconclusive
/// where another raises it as much, or draws name different ones. Pure; 9 to 60 ms of up to eight workers, three seconds of 512. Throws UsageError
/// for fewer than 0 workers or too many, no cores, and for other cores where CPU times were not measured.
TrainingRates rates_of(const TrainingModel& model, const TrainingChange& change);

/// Of the samples, those that come from storage in the long run; 0 where nothing is known of it. Pure.
double miss_fraction_of(const TrainingModel& model, const TrainingChange& change);

/// Of one run, of the values as they were measured: what scans of many changes look at.
struct TrainingReached {
  double samples_per_s = 0;
  std::string bottleneck;
};
TrainingReached reached(const TrainingModel& model, const TrainingChange& change);

/// The same training whose workers take so much less CPU time for a sample, as a fraction. Pure.
TrainingModel with_less_cpu(const TrainingModel& model, double fraction);

/// Half of an interval over its value, 0 to 1; 0 without a value.
double half_width(const Interval& interval, double value);

/// Answers as answer() gives them of a RateModel: first the training unchanged, then each change, the best first; speedups are over the former, so
/// that what disturbed the training as found is no gain. Of `question`, workers, cores, accelerator_speeds, cache_sizes, storage, orders, find
/// (workers, cores, cache, storage) and combine count. Throws UsageError for the rest, with the reason.
WhatIfResult answer(const TrainingModel& model, const WhatIfQuestion& question);

/// The training in the long run, where the part of its data that comes from storage is then another one than while it was measured; else nothing.
std::optional<SteadyRecord> steady_of(const TrainingModel& model);

/// The fewest workers with which the training is as fast as with any number; nothing where it would not surely be faster by a tenth or more.
/// Without `check`, which is the caller's.
std::optional<FixRecord> fix_of(const TrainingModel& model);
/// Whether that is worth it over whole epochs, too, in each of which its workers start. Pure.
bool gains_over_epochs(const ProfileResult& profile, const FixRecord& fix);

/// The training as a configuration of one server whose loader has as many workers as reach the most of P, for what hardware would give:
/// search_setups(). P goes with cores as the drained path does; a sample's fetching and preparing overlap, as there are enough workers. Throws
/// UsageError where the model lacks storage or the CPU time of the workers.
RateModel hardware_model(const TrainingModel& model);

/// "prep", "GPU", ...: a bottleneck of TrainingRates for people.
std::string bottleneck_words(const TrainingRates& rates, bool cpu_trains);

}  // namespace dsanalyze
