#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "awaited_samples.hpp"
#include "base/bounded_queue.hpp"
#include "base/histogram.hpp"
#include "batch_assembly.hpp"
#include "epoch_ledger.hpp"
#include "failure_ledger.hpp"
#include "loader.hpp"
#include "loader_work.hpp"
#include "shuffle_window.hpp"
#include "slot_pool.hpp"

namespace dsanalyze {

/// The loader's threads and what lies between them:
///   feed  (loader_feed.cpp)  ids -> cache lookup -> ready queue or fetch engine
///   reap  (loader_reap.cpp)  completions -> ready queue
///   work  (loader_work.cpp)  bytes -> cache, prepared sample in its slot -> batch
/// A thread that throws ends the run with its message. After stop() nothing more is prepared, counted or given out.
struct Loader::State {
  State(Parts given_parts, const LoaderOptions& given_options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void stop();
  [[nodiscard]] bool over() const { return stopping.load(std::memory_order_acquire) || failures.fatal(); }
  [[nodiscard]] Deadline soon() const;
  void make_window();
  void make_tracks();
  void guarded(void (State::*body)());
  void notify_all();

  void feed();
  void feed_epochs();
  void feed_claims();
  void feed_claim(const StagingClaim& claim, std::span<const SampleId> ids);
  [[nodiscard]] std::uint32_t slots() const { return parts.staging != nullptr ? parts.staging_slots : pool->slots(); }
  bool feed_step(std::uint64_t& step);
  bool begin_epoch(std::uint64_t& current);
  /// With a share: the ranks agree on the epoch. False when this one cannot go on.
  bool join_epoch(std::uint64_t epoch);
  void look_ahead(std::span<const SampleId> ids, std::uint64_t epoch);
  void dispatch(std::span<const SampleId> ids, std::uint64_t epoch, std::uint32_t entry);
  void record(std::span<const CacheLookup> found, std::uint64_t epoch);
  void draw_from_window(std::span<const SampleId> ids, std::uint32_t entry);
  void hand_over(std::span<const LoaderWork> items);
  void submit(std::span<const FetchRequest> group);
  void abandon(std::span<const FetchRequest> requests);
  bool wait_settled();
  void settle(std::size_t count);
  void reap();
  void reap_completions();
  /// True when no read was under way; then after a wait for one.
  bool nothing_asked();
  void drop_left_over();
  /// Gives up on reads that the kernel does not give back.
  void leave_behind();
  /// A completion of a loader that this engine served before: its buffer is all there is to it.
  void drop_stranger(const FetchCompletion& completion);
  LoaderWork take(const FetchCompletion& completion);

  void work();
  /// False where the cache does not await the item.
  bool keep(const LoaderWork& item);
  /// True if the sample is in its place now.
  bool prepare(const LoaderWork& item, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter, std::span<Nanoseconds> spent);
  void give_back(const LoaderWork& item);
  void finish(std::uint32_t entry, std::uint32_t done);

  Parts parts;
  LoaderOptions options;
  Timing timing;
  Sampler sampler;
  TensorShape tensor;            ///< of a full batch
  std::optional<SlotPool> pool;  ///< of batches that next() gives out
  BatchAssembly assembly;
  std::optional<ShuffleWindow> window;  ///< with a shuffle buffer
  BoundedQueue<LoaderWork> ready;
  AwaitedSamples awaited;
  std::uint32_t generation;  ///< in the tags of this loader's fetches
  std::size_t strangers;     ///< places of the engine that reads of earlier loaders still take; the reaper's
  EpochLedger epochs;
  FailureLedger failures;
  std::vector<std::unique_ptr<Prep>> preps;
  std::vector<StageCounter> prep_counters;
  std::vector<DurationHistogram> prep_times;  ///< of a sample, one each worker
  DurationHistogram request_times;
  DurationHistogram peer_times;
  SpanTrack* sampler_track = nullptr;  ///< these: nullptr where nothing is traced
  SpanTrack* read_track = nullptr;
  std::vector<SpanTrack*> worker_tracks;
  StageCounter fetch_counter;
  StageCounter peer_counter;  ///< of what the fetches counted there got from other ranks
  StageCounter feed_counter;
  std::atomic<std::uint64_t> hit_total{0};
  std::atomic<std::uint64_t> miss_total{0};
  std::atomic<std::size_t> unsettled{0};  ///< misses under way, or awaited by the cache
  std::atomic<std::uint32_t> workers_started{0};
  std::atomic<bool> stopping{false};
  std::atomic<bool> feeding_ended{false};
  Signal room;
  Signal settled;
  Signal asked;  ///< a read is under way, after none was
  std::uint64_t next_sequence = 0;
  SamplerState delivered_state;
  mutable std::mutex delivered_mutex;
  // The feeder's own, sized once.
  std::vector<CacheAccess> accesses;
  std::vector<CacheLookup> lookups;
  std::vector<CacheDecision> decisions;
  std::vector<LoaderWork> hits;
  std::uint64_t sequence = 0;
  std::vector<StagingClaim> claims;  ///< by entry; with staging
  std::vector<std::jthread> threads;
};

}  // namespace dsanalyze
