#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "loaders/fetch/storage_meter.hpp"
#include "loaders/pipeline.hpp"
#include "profiler.hpp"
#include "windows.hpp"

namespace dsanalyze {

/// What the runs of one profile have in common.
struct RunContext {
  const ProfileInputs& inputs;
  const ProfilePlan& plan;
  std::shared_ptr<const DatasetIndex> subset;
  Bytes subset_cache_bytes = 0;  ///< x of the subset
  EventSink& events;
  std::stop_token stop;
  Timing timing;
  Nanoseconds begun = 0;  ///< of the whole profile
  std::vector<Finding> findings;
  bool trusted = true;
  FetchWay way;                             ///< how files are read
  std::vector<StoragePoint> storage_curve;  ///< as soon as it is measured
  bool meter_moves = false;                 ///< real storage: reading cold was seen in the counter, so that its standing still is a proof
  bool pages_tell = false;                  ///< real storage: reading cold was seen in the page cache
  std::vector<StoragePlace> places{};       ///< real storage: every filesystem that holds files of the subset

  /// The same run, which reports its events to `other` and collects findings of its own.
  [[nodiscard]] RunContext with_events(EventSink& other) const {
    return {inputs, plan, subset, subset_cache_bytes, other, stop, timing, begun, {}, true, way, {}};
  }
  void find(Finding::Severity severity, const std::string& code, const std::string& message);
  /// Whatever a run's own share: the time that the user gave is over.
  [[nodiscard]] bool budget_spent() const { return elapsed() >= plan.seconds; }
  /// Seconds since the begin of the whole profile.
  [[nodiscard]] double elapsed() const { return to_seconds(timing.clock->now() - begun); }
  /// A finding that the measurement cannot be trusted for.
  void distrust(const std::string& code, const std::string& message);
};

/// A run and the rate that it gave.
struct Measured {
  RunRecord record;
  RateRecord rate;
  LoaderTimes times;
};

/// G: batches that are on the accelerators already; 100 iterations or an interval of 1 %, whichever is first, within `seconds`.
Measured run_synthetic(RunContext& context, double seconds);
/// G of the CPU, roughly, from a few iterations; infinite where `seconds` were too short for two.
double rough_training_rate(RunContext& context, double seconds);
/// Prep by the CPU's cores and by the GPU, each alone, on a part of the subset that is in memory; nullopt where the GPU cannot decode and was
/// not asked to, or `seconds` were too short. Throws UsageError where it was asked to.
std::optional<PrepServersRecord> measure_prep_servers(RunContext& context, double seconds);
/// S: cold, storage alone, no prep, at the full run's own concurrency and request size.
Measured run_fetch(RunContext& context, double seconds);
/// S over request size and concurrency: random requests in the subset's files, cold. Sizes that no file has are left out; so are the less telling
/// points when the time is short.
std::vector<StoragePoint> measure_storage_curve(RunContext& context, double seconds);
/// Reads the whole subset once into the pipeline's cache, without prep. False, with a finding, when that takes longer than `seconds`.
bool fill_cache(RunContext& context, Pipeline& pipeline, double seconds);
/// P: the cached subset, the loader alone. `pipeline` is warm.
Measured run_prep(RunContext& context, Pipeline& pipeline, double seconds);
/// P on fewer cores than all, for the curve over cores; nullopt when the time was too short.
std::optional<CorePoint> measure_on_cores(RunContext& context, Pipeline& pipeline, int cores, double seconds);
/// The numbers of cores below `all` at which P is measured: powers of two.
std::vector<int> fewer_cores(int all);
/// The cached subset with the accelerator.
Measured run_cached(RunContext& context, Pipeline& pipeline, double seconds);
/// Cold start, the user's cache limit, everything on: at least the settings' epochs, the first apart.
Measured run_full(RunContext& context, double seconds);
/// C: copies of the cache's own objects, in random order, by as many threads as prep has workers.
RateRecord measure_cache(RunContext& context, Pipeline& pipeline, double seconds);

/// H: batches from pinned memory to the GPUs, all of them at once. With AcceleratorKind::cuda.
RateRecord measure_transfer(RunContext& context, double seconds);
/// The same from one copy, without a record.
double rough_transfer_rate(const RunContext& context);
/// Copies to the first GPU by size, number of streams and kind of memory.
std::vector<TransferPoint> measure_transfer_curve(RunContext& context, double seconds);
/// H of a mesh by each way of feeding it.
std::vector<FeedPoint> measure_feeds(RunContext& context, double seconds);

/// Drops the subset from the page cache and proves that it is cold; a finding if it is not.
void make_cold(RunContext& context);
/// The pipeline spec of a run over the subset.
Pipeline::Spec run_spec(const RunContext& context, CacheKind cache, Bytes cache_bytes);

/// What a request costs storage at the run's own concurrency: the straight line through the curve's points there.
StorageCost fitted_storage_cost(const RunContext& context);
/// The share of an epoch's storage time that a full cache saves: the cache fraction, or more with cost-aware admission.
double saved_storage_share(const RunContext& context);

/// Sets how all runs read (RunContext::way). `--io pread` and `uring` are taken at their word; `auto` tries threads and io_uring, buffered and direct
/// (direct alone with --direct; buffered alone where the page cache is what is measured), alternately on a few cold samples for about `seconds`,
/// takes the fastest and says so. Where the kernel refuses io_uring, auto goes without and says so. Throws UsageError when uring was asked for and is
/// refused.
void choose_io(RunContext& context, double seconds);
/// "io_uring, direct"
std::string way_name(const FetchWay& way);

}  // namespace dsanalyze
