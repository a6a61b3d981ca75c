#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.hpp"
#include "base/histogram.hpp"
#include "core/batch.hpp"
#include "core/index.hpp"
#include "core/partition/collective.hpp"
#include "core/records/settings.hpp"
#include "core/storage_cost.hpp"
#include "core/trace/access_trace.hpp"
#include "core/trace/span_recorder.hpp"
#include "loaders/cache/cache.hpp"
#include "loaders/fetch/fetch_engine.hpp"
#include "loaders/prep/gpu_prep.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/staging/staging.hpp"
#include "sampler.hpp"
#include "slot_pool.hpp"

namespace dsanalyze {

struct LoaderOptions {
  std::uint32_t batch_size = 256;      ///< of one accelerator
  std::uint32_t slices = 1;            ///< accelerators in lockstep: the global mini-batch is slices x batch_size, cut evenly
  std::uint32_t workers = 1;           ///< prep threads
  std::uint32_t prefetch_batches = 4;  ///< batches prepared or in preparation beside those that the accelerators hold
  std::uint32_t held_batches = 1;      ///< batches that the consumer may hold at once
  SamplerState start;                  ///< of this dataset; one that state() gave is refused with another, or in mid-epoch with another batch size
  std::uint64_t epochs = 0;            ///< stop after so many (0: go on until stopped)
  OnError on_error = OnError::skip;
  StorageCost storage_cost;     ///< what ranks samples for a cost-aware cache
  double error_budget = 0.001;  ///< share of the samples drawn (and more than 10 of them) that may fail
  SlotPages slot_pages = SlotPages::before_use;
  std::vector<int> worker_cpus;  ///< pin workers to these; empty: leave it to the system
};

/// A sample that could not be obtained.
struct SampleFailure {
  std::string path;
  std::string cause;
};

/// Failures of one cause; the same sample may have failed in several epochs.
struct FailureCount {
  std::string cause;
  std::uint64_t count = 0;
  std::string example;
};

/// What one epoch asked for and what it cost, complete when all its fetches have settled.
struct EpochTotals {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;  ///< drawn
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t peer_hits = 0;   ///< misses that came from other ranks
  Bytes peer_bytes = 0;          ///< of these
  Bytes requested = 0;           ///< bytes asked of storage
  std::optional<Bytes> storage;  ///< bytes that reached the device, by the meter given to the loader
  std::string digest;            ///< of the set of samples drawn and not failed
};

/// What has been prepared of one epoch so far; samples that failed are not.
struct EpochPrepared {
  std::uint64_t epoch = 0;
  std::uint64_t samples = 0;
};

/// Everything counted since the start, readable while it runs.
struct LoaderTotals {
  StageTotals fetch;     ///< misses: samples, bytes, failures, waiting
  StageTotals prep;      ///< samples prepared, bytes of them, failures (not among the samples), busy, waiting; both of the workers alone
  StageTotals gpu_prep;  ///< of these samples, those of the GPU; busy: of the threads that give it work
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t peer_hits = 0;         ///< misses that came from other ranks
  Bytes peer_bytes = 0;                ///< of these
  std::uint64_t waiting_for_prep = 0;  ///< samples whose bytes are there, just now
  std::uint64_t ready_batches = 0;     ///< prepared and not yet taken, just now
  std::vector<Nanoseconds> operator_times;
};

/// How long the loader's work on one sample took.
struct LoaderTimes {
  DurationCounts request;  ///< a read from storage, while as many others were in flight as the engine allows
  DurationCounts peer;     ///< a sample that came from another rank
  DurationCounts
      prep;  ///< one sample on one worker, its cache copy and samples that failed before it included; below a microsecond, the mean of its group
};

/// Which samples a claimed batch has, where that is not a part of its epoch's order. Threads: the feeder's.
class ClaimedSamples {
 public:
  virtual ~ClaimedSamples() = default;
  struct Work {
    std::span<const SampleId> samples;  ///< at most a batch; valid until the next call
    std::uint64_t generation = 0;       ///< by which they are augmented
  };
  /// Once for each claim, before the next.
  virtual Work of(const StagingClaim& claim) = 0;
};

/// Joins sampler, cache, fetch engine, prep and slots into a stream of batches in the sampler's order. One feeder thread draws ids, asks the cache
/// and submits misses; one thread reaps; `workers` threads prep straight into the slots. Everything between them is bounded. A fetch of one epoch
/// settles before the next epoch's first lookup, so that MinIO's hits from the second epoch on are exactly the items held. Threads: next() one
/// caller; release() and totals() any. The parts given must outlive the loader; an engine serves one loader at a time, and what comes back late of an
/// earlier one is dropped.
///
/// With `staging`, the batches are those that the group's producer claims, made in the slots that it gives: next() gives none out, and ends when the
/// producer has no more to make. Order, batch size and seed are the options' (`start`, without a buffer); start's epoch and position, `epochs`,
/// slices and depths are not asked. With `claimed`, no order is asked either.
///
/// With `share`, global mini-batches are share->ranks() times as large, and the batches are this rank's part of them; one without samples is a batch
/// of none, so that every rank takes as many steps. There is no shuffle buffer then, and no staging. A share that cannot go on is a failure().
class Loader final : public BatchSource {
 public:
  struct Parts {
    std::shared_ptr<const DatasetIndex> index;
    FetchEngine* engine = nullptr;
    RawCache* cache = nullptr;
    const PrepFactory* prep = nullptr;
    std::function<std::optional<Bytes>()> storage_bytes;  ///< the meter; may be empty
    Timing timing;
    AccessRecorder* recorder = nullptr;  ///< told what the cache is asked, by the feeder; may be empty
    SpanRecorder* spans = nullptr;       ///< given a track for the sampler, one for the reads and one for each prep worker; may be empty
    StagingProducer* staging = nullptr;  ///< whose batches are made; empty: this loader's own
    std::uint32_t staging_slots = 0;     ///< of that producer
    ClaimedSamples* claimed = nullptr;   ///< with `staging`: what its batches have; empty: their parts of the epochs' orders
    RankShare* share = nullptr;          ///< of a rank among several: what it takes of each global mini-batch; empty: all of it
    std::shared_ptr<GpuPrep> gpu{};      ///< prepares a part of each batch; without staging
  };
  Loader(Parts parts, const LoaderOptions& options);
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch. end after the last epoch; timeout; cancelled after stop(); corrupt when a sample failed and on_error is fail, or the error
  /// budget is spent: failure() says which and why.
  Status next(Batch& batch, Deadline deadline) override;
  void release(ReleaseToken token) override;
  [[nodiscard]] const std::byte* memory(const Batch& batch) const override;
  [[nodiscard]] std::uint64_t gpu_memory(const Batch& batch) const override;
  /// Ends all work and waits for its threads (reads that the kernel has begun are waited for, for half a minute): counters stand still from then on.
  /// What was not given out is dropped; batches given out stay valid until the loader is destroyed.
  void stop() override;

  [[nodiscard]] LoaderTotals totals() const;
  [[nodiscard]] LoaderTimes times() const;
  [[nodiscard]] std::vector<EpochTotals> epochs() const;      ///< settled ones; of more than a thousand, the first and the last
  [[nodiscard]] std::vector<EpochPrepared> prepared() const;  ///< of the same epochs, and of those that have not settled
  [[nodiscard]] std::vector<SampleFailure> failures() const;  ///< the first hundred
  [[nodiscard]] std::vector<FailureCount> failure_counts() const;
  [[nodiscard]] std::uint64_t failed_samples() const;
  [[nodiscard]] std::string failure() const override;
  /// The failure is that memory is short.
  [[nodiscard]] bool out_of_memory() const;
  /// Where to go on after the batches given out so far.
  [[nodiscard]] SamplerState state() const;
  [[nodiscard]] Bytes slot_bytes() const;
  /// nullptr where nothing is prepared on a GPU.
  [[nodiscard]] const GpuPrep* gpu_prep() const;
  [[nodiscard]] std::vector<std::string_view> operator_names() const;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
