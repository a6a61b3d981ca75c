#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/bounded_queue.hpp"
#include "base/system/shared_memory.hpp"
#include "core/batch.hpp"
#include "sample_room.hpp"

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

/// When the kernel gives the slots their memory.
enum class SlotPages : std::uint8_t {
  before_use,  ///< all at once: no batch pays for it, and the first one comes later
  as_written   ///< by whatever thread writes to a page first: the first batch does not wait for the memory of others
};

/// Batch slots in one piece of memory of this process's own: a child of fork() keeps what it had of a batch, whatever becomes of the slot here.
/// Threads: any, at once. A slot belongs to the caller that acquired it until its token is released.
class SlotPool {
 public:
  /// Throws Error when their memory is not there.
  SlotPool(std::uint32_t slots, const TensorShape& batch_tensor, Timing timing, SlotPages pages = SlotPages::before_use);

  /// A free slot; false when the deadline passed or the pool was closed.
  bool acquire(ReleaseToken& token, Deadline deadline);
  /// corrupt for a token that is stale or never was.
  Status release(ReleaseToken token);
  void close() { m_free.close(); }
  /// Of samples whose sizes are their own: that of the batch that the slot has. It ends with the slot's release.
  [[nodiscard]] SampleRoom& room(std::uint32_t slot) { return m_rooms[slot]; }

  [[nodiscard]] const SlotLayout& layout() const { return m_layout; }
  [[nodiscard]] std::byte* data(std::uint32_t slot) const { return m_memory.bytes().data() + slot * m_layout.bytes; }
  [[nodiscard]] Bytes bytes() const { return m_memory.bytes().size(); }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(m_generations.size()); }

 private:
  SlotLayout m_layout;
  ZeroedMemory m_memory;
  SampleMemory m_sample_memory;
  std::deque<SampleRoom> m_rooms;
  std::vector<std::atomic<std::uint64_t>> m_generations;  ///< odd while in use
  BoundedQueue<std::uint32_t> m_free;
};

}  // namespace dsanalyze
