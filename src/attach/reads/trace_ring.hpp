#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "access_trace.hpp"
#include "base/clock.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {

/// What a process left in its ring.
struct RingRecord {
  AccessKind kind = AccessKind::read;
  std::uint32_t opening = 0;
  Nanoseconds end = 0;
  std::uint32_t nanoseconds = 0;
  std::uint64_t offset = 0;
  Bytes bytes = 0;
  TracedFile file;  ///< AccessKind::open and inherited
};

/// The launcher's side of the memory in which a traced process leaves what it reads. The process may die at any instruction and may write anything
/// there: nothing read from it is used before it was checked. Threads: one at a time.
class TraceRing {
 public:
  /// Nothing where this is no ring of a tracer, or one whose memory could be taken away.
  static std::optional<TraceRing> open(const FileDescriptor& memory);
  TraceRing(TraceRing&& other) noexcept;
  TraceRing& operator=(TraceRing&&) = delete;
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;
  ~TraceRing();

  /// The next record; false when there is none. A record that was begun and not finished is waited for, a second at most, unless `ended`: the process
  /// writes no more. Then it is lost.
  bool next(RingRecord& record, Nanoseconds now, bool ended);
  /// What the process and this side could not keep. `lost_bytes`, `other_bytes` and `network_bytes` are the process's word.
  [[nodiscard]] std::uint64_t lost_records() const;
  [[nodiscard]] Bytes lost_bytes() const;
  [[nodiscard]] Bytes other_bytes() const;
  [[nodiscard]] Bytes network_bytes() const;

 private:
  explicit TraceRing(void* memory) : m_memory(memory) {}
  [[nodiscard]] bool skip(Nanoseconds now, bool ended);
  void pass(std::uint64_t slots);

  void* m_memory;
  std::uint64_t m_tail = 0;  ///< the ring's own is for the process, which may garble it
  std::optional<Nanoseconds> m_waits_since;
  std::uint64_t m_unfinished = 0;
  bool m_skipping = false;
  bool m_broken = false;
};

}  // namespace dsanalyze
