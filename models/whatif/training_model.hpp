#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/records/result.hpp"
#include "core/records/whatif_result.hpp"
#include "miss_model.hpp"
#include "models/simulate/worker_cycle.hpp"
#include "whatif.hpp"

namespace dsanalyze {

struct TrainingPath;

/// What the closed form knows of a launched training and its own loader. Rates are those of all ranks together, in samples/s; times are seconds a
/// sample where their names say no other.
struct TrainingModel {
  /// P as it was drained.
  struct Point {
    int workers = 0;
    double samples_per_s = 0;
    double error = 0;                        ///< half of its 95 % interval over its value
    std::optional<double> busy_take_over{};  ///< take_over while the workers prepare; nothing: not measured
  };
  int ranks = 1;
  std::optional<int>
      most_workers{};       ///< that are advised, as a drain with others failed, each worker delivers all samples, or an epoch has no more batches
  int workers = 0;          ///< num_workers of each rank
  double cores = 1;         ///< that all processes may use
  std::vector<Point> prep;  ///< workers rising, at least one
  std::optional<double> worker_cpu;    ///< CPU time of the workers; nothing: not measured
  double process_cpu = 0;              ///< CPU time in which the training process takes a sample over, all threads
  double thread_cpu = 0;               ///< of it, of the thread that trains
  double take_over = 0;                ///< in which the thread that trains has a batch that lies ready: its CPU time, and waiting for a pipe
  std::optional<double> training_cpu;  ///< CPU time of training alone; nothing: not measured
  double ingestion = 0;                ///< G
  double ingestion_error = 0;
  double step_samples = 1;         ///< of all ranks
  double outside_seconds = 0;      ///< of a step: what no accelerator makes shorter
  double delivery_seconds = 0;     ///< of a step: taking over a batch that is ready while the workers rest
  double slowed_seconds = 0;       ///< of a step: what computing takes longer while the workers use the cores that the training process leaves them
  double held_up_fraction = 1;     ///< of what busy workers were measured to add to a step, what the training as found can have lost
  double competing_loss = 0.5;     ///< where training and workers compete for cores: how far toward taking turns their rate falls, 0 to 1
  double unexplained_seconds = 0;  ///< without workers: what training and prep take longer in turn than each for itself
  double found = 0;                ///< the full run
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
  /// P where the cores limit it while steps are taken, over P of a loader that is drained: what taking a batch costs that a drain does not see.
  double beside_steps = 1;
  double beside_steps_error = 0;  ///< half of its 95 % interval over its value
  std::optional<double> epoch_samples;
  std::shared_ptr<const TrainingPath> path{};  ///< rates_of() moves batches through it by events, in place of the rule below
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
  enum class Limit { workers, cores, process };
  double prep = 0;  ///< P
  Interval ci95_prep;
  Limit prep_limit = Limit::workers;
  double miss_fraction = 0;         ///< of the samples, those that come from storage in the long run
  double prep_from_memory = 0;      ///< P where none does
  std::optional<double> storage{};  ///< S
  double ingestion = 0;             ///< what the steps could take if every batch were ready
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
///   P = min(R n / t, N / (c + p), R / p), each corrected at the measured points that tell of it to what was measured there (straight over n between
///       them, and for the cores over the workers that share one);
///   steps = B / (outside + (B / G - outside) / speed + delivery) for B samples a step;
/// where delivery grows from that of resting workers to that of busy ones as the workers use up the cores that the training process leaves them: the
/// worker that hands a tensor over waits for one, and so does the training process;
///   rate = min(P, steps, N / (c + p + CPU time of training)); without workers 1 / (1/P + 1/steps), as both take turns.
/// On fewer cores, N / (c + p) is right to a tenth (law_error()).
/// Where the cores limit the training as found, its own run corrects N / (c + p) (beside_steps, learn_from_found()).
/// Where a fraction m of the samples comes from storage in the long run, P is that of workers which fetch and then prepare (cycle_rate()); m follows
/// from the memory that the page cache has and from what an epoch reads (MissModel).
/// Where training takes CPU time and the cores are nearly used up, the rate lies between that and the rate of taking turns, in the part of a step
/// that it computes, and its low end reaches down to the latter: who gets a core then is not known. It lies as far down as that of the training as
/// found, where that competed, else in the middle. Pure. Throws UsageError for fewer than 0 workers, no cores, and for other cores where CPU times
/// were not measured.
TrainingRates rates_of(const TrainingModel& model, const TrainingChange& change);

/// Seconds of a step in which the training process takes over a batch that lies ready, at `samples_per_s` with so many workers a rank on so many
/// cores. Pure.
double delivery_seconds(const TrainingModel& model, int workers, double cores, double samples_per_s);

/// The same training whose workers take so much less CPU time for a sample, as a fraction; a sample takes them as many seconds less, at most. Pure.
/// `model` has the CPU time of the workers.
TrainingModel with_less_cpu(const TrainingModel& model, double fraction);

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
/// search_setups(), live_model(), report_curves(). P goes with cores by rates_of(); a sample's fetching and preparing overlap, as there are enough
/// workers. Throws UsageError where the model lacks storage or the CPU time of the workers.
RateModel hardware_model(const TrainingModel& model);

/// "prep", "GPU", ...: a bottleneck of TrainingRates for people.
std::string bottleneck_words(const TrainingRates& rates, bool cpu_trains);

}  // namespace dsanalyze
