#pragma once

#include <cstdint>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/statistics.hpp"
#include "core/index.hpp"
#include "loaders/fetch/fetch_engine.hpp"

namespace dsanalyze {

/// Reads the samples of an index, one after another and again from the first, with a fixed number of them in flight, and counts what arrives. The
/// first part of the time is not counted. All is done when the constructor returns: after `seconds`, later where storage is slow (four times as long
/// and the time of the last reads at most), at once when asked to stop. `first` is the sample to start with. Reads that fail are counted apart.
class StoragePointRun {
 public:
  StoragePointRun(FetchEngine& engine, const DatasetIndex& requests, int concurrency, double seconds, const std::stop_token& stop, Timing timing,
                  std::uint64_t first = 0);

  /// 0 where too little was read to say.
  [[nodiscard]] double bytes_per_s() const;
  /// The counted time in equal parts (bytes, seconds); empty where too little was read to say.
  [[nodiscard]] std::vector<Stretch> stretches() const;
  /// Of all that was read, counted or not.
  [[nodiscard]] Bytes bytes() const { return m_bytes; }
  [[nodiscard]] std::uint64_t failed() const { return m_failed; }
  /// The sample after the last one that was asked for.
  [[nodiscard]] std::uint64_t next() const { return m_next; }

 private:
  void run();
  void submit();
  void reap(Nanoseconds counted_from);
  void drain();
  [[nodiscard]] bool enough() const;
  [[nodiscard]] bool telling() const;

  FetchEngine& m_engine;
  const DatasetIndex& m_requests;
  std::size_t m_concurrency;
  double m_seconds;
  std::stop_token m_stop;
  Timing m_timing;
  std::uint64_t m_next;
  std::size_t m_in_flight = 0;
  std::size_t m_ended = 0;
  std::uint64_t m_failed = 0;
  Bytes m_bytes = 0;
  std::vector<std::pair<Nanoseconds, Bytes>> m_counted;  ///< when each was there
  Nanoseconds m_first = 0;                               ///< before the counted ones
  Nanoseconds m_last = 0;
};

}  // namespace dsanalyze
