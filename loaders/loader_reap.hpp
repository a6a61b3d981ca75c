#pragma once

#include "base/histogram.hpp"
#include "loader_flow.hpp"

namespace dsanalyze {

/// The loader's thread that takes what the fetch engine has read.
class LoaderReaper {
 public:
  explicit LoaderReaper(LoaderFlow& flow);

  /// The thread's body: until nothing is under way and nothing more will be asked for.
  void run();
  /// Threads: any.
  void add_to(LoaderTotals& totals) const;
  void add_to(LoaderTimes& times) const;

 private:
  void reap_completions();
  /// True when no read was under way; then after a wait for one.
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

}  // namespace dsanalyze
