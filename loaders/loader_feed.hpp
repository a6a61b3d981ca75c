#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "loader_flow.hpp"
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
  bool join_epoch(std::uint64_t epoch);
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

}  // namespace dsanalyze
