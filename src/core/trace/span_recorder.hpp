#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/system/shared_memory.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What a thread did. Of two that begin and end together, the one that is named first here is around the other.
enum class SpanKind : std::uint8_t {
  batch,         ///< number: of the batch; amount: samples of it
  sample,        ///< number: of the sample
  prep,          ///< one operator of a sample; amount: its place among the operators
  keep,          ///< copies into the cache; amount: samples
  read,          ///< number: of the sample; amount: bytes
  wait_slot,     ///< for a batch slot that is not in use
  wait_storage,  ///< for a free place among the reads
  wait_settled,  ///< for the last reads of an epoch
};

/// From `begin` to `end`, of the clock that the recorder is built with.
struct Span {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::uint64_t number = 0;
  std::uint32_t amount = 0;
  SpanKind kind = SpanKind::batch;
};

class SpanRecorder;

/// The spans of one thread, in the order of add(). Written by one thread; read when that thread has ended or waits for the reader.
class SpanTrack {
 public:
  enum class Role : std::uint8_t { sampler, reads, prep_worker };

  SpanTrack(SpanRecorder& recorder, Role role, std::uint32_t number) : m_recorder(recorder), m_role(role), m_number(number) {}
  /// Drops the span when the recorder is full. No lock, no allocation, no system call.
  void add(const Span& span) {
    if (m_room.empty() && !next_block()) {
      ++m_dropped;
      return;
    }
    m_room.front() = span;
    m_room = m_room.subspan(1);
  }
  [[nodiscard]] Role role() const { return m_role; }
  [[nodiscard]] std::uint32_t number() const { return m_number; }  ///< of those with the same role, from 0
  [[nodiscard]] std::uint64_t dropped() const { return m_dropped; }
  /// A copy of all that was added and not dropped.
  [[nodiscard]] std::vector<Span> spans() const;

 private:
  static constexpr std::uint32_t no_block = UINT32_MAX;
  bool next_block();

  SpanRecorder& m_recorder;
  Role m_role;
  std::uint32_t m_number;
  std::uint32_t m_first = no_block;
  std::uint32_t m_last = no_block;
  std::span<Span> m_room;  ///< what is left of the last block
  std::uint64_t m_dropped = 0;
};

/// Memory for the spans of the threads of one run, 32 bytes each, taken and touched when it is made. Threads take blocks of it as they need them, so
/// one that records much is not held back by others that record little. Threads: make_track() any.
class SpanRecorder {
 public:
  static constexpr std::size_t block_spans = 256;

  /// Room for `most_spans`, rounded up to a block for each of a few threads; the last blocks may be used in part. Throws Error when there is no
  /// memory.
  explicit SpanRecorder(std::size_t most_spans);
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;
  ~SpanRecorder() = default;

  /// For one thread; lives as long as the recorder.
  SpanTrack& make_track(SpanTrack::Role role);
  /// In the order they were made.
  [[nodiscard]] const std::deque<SpanTrack>& tracks() const { return m_tracks; }
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] Bytes memory_bytes() const { return m_memory.bytes().size(); }

 private:
  friend class SpanTrack;
  [[nodiscard]] std::span<Span> block(std::uint32_t number) const { return m_spans.subspan(number * block_spans, block_spans); }

  ZeroedMemory m_memory;
  std::span<Span> m_spans;
  std::vector<std::uint32_t> m_next;  ///< of each block: the block after it on its track
  std::atomic<std::uint32_t> m_taken{0};
  std::mutex m_mutex;
  std::deque<SpanTrack> m_tracks;
};

}  // namespace dsanalyze
