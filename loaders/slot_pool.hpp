#pragma once

#include <cstdint>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/system/shared_memory.hpp"
#include "core/batch.hpp"

namespace dsanalyze {

/// Where a slot has what of a batch: samples from its begin, then ids, then labels. A slot begins on a 4 KiB boundary (pinnable).
struct SlotLayout {
  SlotLayout() = default;
  /// Of slots for batches of the tensor's number of samples.
  explicit SlotLayout(const TensorShape& batch);
  std::size_t ids_at = 0;
  std::size_t labels_at = 0;
  std::size_t bytes = 0;  ///< of the slot; a multiple of 4096
};

/// Batch slots in one piece of memory of this process's own: a child of fork() keeps what it had of a batch, whatever becomes of the slot here.
/// Threads: any, at once. A slot belongs to the caller that acquired it until its token is released.
class SlotPool {
 public:
  /// Takes all their memory at once. Throws Error when it is not there.
  SlotPool(std::uint32_t slots, const TensorShape& batch_tensor, Timing timing);

  /// A free slot; false when the deadline passed or the pool was closed.
  bool acquire(ReleaseToken& token, Deadline deadline);
  /// corrupt for a token that is stale or never was.
  Status release(ReleaseToken token);
  void close() { m_free.close(); }

  [[nodiscard]] const SlotLayout& layout() const { return m_layout; }
  [[nodiscard]] std::byte* data(std::uint32_t slot) const { return m_memory.bytes().data() + slot * m_layout.bytes; }
  [[nodiscard]] Bytes bytes() const { return m_memory.bytes().size(); }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(m_generations.size()); }

 private:
  SlotLayout m_layout;
  ZeroedMemory m_memory;
  std::vector<std::atomic<std::uint64_t>> m_generations;  ///< odd while in use
  BoundedQueue<std::uint32_t> m_free;
};

}  // namespace dsanalyze
