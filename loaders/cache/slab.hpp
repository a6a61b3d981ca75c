#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "dsanalyze/base/shared_memory.hpp"

namespace dsanalyze {

/// A segment that one process fills from front to back and nobody ever overwrites: what was published of it stays valid. Threads: any.
class Slab {
 public:
  static constexpr std::size_t alignment = 64;
  explicit Slab(MemorySegment segment) : m_segment(std::move(segment)) {}

  /// Copies the bytes in; their offset, or nullopt when the slab is full.
  std::optional<std::uint64_t> append(std::span<const std::byte> bytes) {
    const std::size_t room = (bytes.size() + alignment - 1) / alignment * alignment;
    const std::uint64_t offset = m_used.fetch_add(room, std::memory_order_relaxed);
    if (offset + room > m_segment.size()) {
      m_used.fetch_sub(room, std::memory_order_relaxed);
      return std::nullopt;
    }
    std::ranges::copy(bytes, m_segment.data() + offset);
    return offset;
  }
  [[nodiscard]] const MemorySegment& segment() const { return m_segment; }

 private:
  MemorySegment m_segment;
  std::atomic<std::uint64_t> m_used{0};
};

}  // namespace dsanalyze
