#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/histogram.hpp"
#include "loader_flow.hpp"
#include "loaders/prep/gpu_prep.hpp"
#include "sampler.hpp"

namespace dsanalyze {

/// The loader's thread that draws samples, looks them up in the cache and asks the fetch engine for the rest.
class LoaderFeeder {
 public:
  explicit LoaderFeeder(LoaderFlow& flow);

  /// The thread's body: until the last epoch, or until all is over.
  void run();
  /// Threads: any.
  void add_to(LoaderTotals& totals) const;

 private:
  void feed_epochs();
  void feed_claims();
  void feed_claim(const StagingClaim& claim, const ClaimedSamples::Work& work);
  bool feed_step(std::uint64_t& step);
  bool begin_epoch(std::uint64_t& current);
  /// With a share: the ranks agree on the epoch. False when this one cannot go on.
  bool join_epoch(std::uint64_t epoch, std::uint64_t position);
  void look_ahead(std::span<const SampleId> ids, std::uint64_t epoch);
  void dispatch(std::span<const SampleId> ids, std::uint64_t epoch, std::uint32_t entry);
  void record(std::span<const CacheLookup> found, std::uint64_t epoch);
  void draw_from_window(std::span<const SampleId> ids, std::uint32_t entry);
  void submit(std::span<const FetchRequest> group);
  void abandon(std::span<const FetchRequest> requests);
  bool wait_settled();

  LoaderFlow& m_flow;
  Sampler m_sampler;
  // Sized once.
  std::vector<CacheAccess> m_accesses;
  std::vector<CacheLookup> m_lookups;
  std::vector<CacheDecision> m_decisions;
  std::vector<LoaderWork> m_hits;
  std::uint64_t m_sequence = 0;
  StageCounter m_counter;
  std::atomic<std::uint64_t> m_hit_total{0};
  std::atomic<std::uint64_t> m_miss_total{0};
  SpanTrack* m_track;  ///< nullptr where nothing is traced
};

/// The loader's thread that takes what the fetch engine has read.
class LoaderReaper {
 public:
  explicit LoaderReaper(LoaderFlow& flow);

  /// The thread's body: until nothing is in flight and nothing more will be asked for.
  void run();
  /// Threads: any.
  void add_to(LoaderTotals& totals) const;
  void add_to(LoaderTimes& times) const;

 private:
  void reap_completions();
  /// True when no read was in flight; then after a wait for one.
  bool nothing_asked();
  void drop_left_over();
  /// Gives up on reads that the kernel does not give back.
  void leave_behind();
  /// A completion of a loader that this engine served before: its buffer is all there is to it.
  void drop_stranger(const FetchCompletion& completion);
  LoaderWork take(const FetchCompletion& completion);

  LoaderFlow& m_flow;
  std::size_t m_strangers;  ///< places of the engine that reads of earlier loaders still take
  StageCounter m_fetched;
  StageCounter m_from_peers;  ///< of m_fetched, what came from other ranks
  DurationHistogram m_request_times;
  DurationHistogram m_peer_times;
  SpanTrack* m_track;  ///< nullptr where nothing is traced
};

/// The loader's prep workers. After stop() nothing more is prepared or counted.
class LoaderWorkers {
 public:
  explicit LoaderWorkers(LoaderFlow& flow);

  /// The body of each worker's thread: until the queue is closed.
  void run();
  /// Threads: any.
  void add_to(LoaderTotals& totals) const;
  void add_to(LoaderTimes& times) const;

 private:
  /// True if the sample is in its place now.
  bool prepare(const LoaderWork& item, Prep& prep, std::vector<std::byte>& scratch, StageCounter& counter, std::span<Nanoseconds> spent);

  LoaderFlow& m_flow;
  // One each worker.
  std::vector<std::unique_ptr<Prep>> m_preps;
  std::vector<StageCounter> m_counters;
  std::vector<DurationHistogram> m_times;  ///< of a sample
  std::vector<SpanTrack*> m_tracks;        ///< nullptr where nothing is traced
  std::atomic<std::uint32_t> m_started{0};
};

/// The loader's threads that give samples to the GPU. Threads: run() each its own; the rest any.
class LoaderGpuWorkers {
 public:
  explicit LoaderGpuWorkers(LoaderFlow& flow);

  /// The body of each thread: until the queue is closed.
  void run();
  /// 0 where nothing is prepared on a GPU.
  [[nodiscard]] std::uint32_t threads() const { return static_cast<std::uint32_t>(m_preps.size()); }
  void add_to(LoaderTotals& totals) const;

 private:
  /// Prepares what is good among the items; returns how many are.
  std::size_t prepare(std::span<const LoaderWork> items, GpuPrep::Worker& prep);

  LoaderFlow& m_flow;
  std::vector<std::unique_ptr<GpuPrep::Worker>> m_preps;
  std::vector<StageCounter> m_counters;
  std::atomic<std::uint32_t> m_started{0};
};

}  // namespace dsanalyze
