#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/histogram.hpp"
#include "loader_flow.hpp"

namespace dsanalyze {

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
  /// False where the cache does not await the item.
  bool keep(const LoaderWork& item);
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

}  // namespace dsanalyze
