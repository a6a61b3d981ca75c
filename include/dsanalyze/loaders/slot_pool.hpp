#pragma once

#include <cstdint>
#include <vector>

#include "dsanalyze/base/bounded_queue.hpp"
#include "dsanalyze/base/shared_memory.hpp"
#include "dsanalyze/core/batch.hpp"

namespace dsanalyze {

/// Batch slots in one shared segment; each begins on a 4 KiB boundary (pinnable) and holds samples, then ids, then labels.
/// Threads: any, at once. A slot belongs to whoever acquired it until its token is released.
class SlotPool {
 public:
  /// Takes all their memory at once. Throws Error when it is not there.
  SlotPool(std::uint32_t slots, const TensorShape& batch_tensor, Timing timing);

  /// A free slot; false when the deadline passed or the pool was closed.
  bool acquire(ReleaseToken& token, Deadline deadline);
  /// corrupt for a token that is stale or never was.
  Status release(ReleaseToken token);
  void close() { m_free.close(); }

  [[nodiscard]] std::byte* data(std::uint32_t slot) const { return m_segment.data() + slot * m_slot_bytes; }
  [[nodiscard]] std::uint64_t samples_offset(std::uint32_t slot) const { return slot * m_slot_bytes; }
  [[nodiscard]] std::uint64_t ids_offset(std::uint32_t slot) const { return slot * m_slot_bytes + m_ids_at; }
  [[nodiscard]] std::uint64_t labels_offset(std::uint32_t slot) const { return slot * m_slot_bytes + m_labels_at; }
  [[nodiscard]] const MemorySegment& segment() const { return m_segment; }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(m_generations.size()); }

 private:
  std::size_t m_ids_at = 0, m_labels_at = 0, m_slot_bytes = 0;
  MemorySegment m_segment;
  std::vector<std::atomic<std::uint64_t>> m_generations;  ///< odd while in use
  BoundedQueue<std::uint32_t> m_free;
};

}  // namespace dsanalyze
