#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// A segment that one process fills from front to back and no process ever overwrites: what was published of it stays valid. Threads: any.
class Slab {
 public:
  static constexpr std::size_t alignment = 64;
  explicit Slab(MemorySegment segment) : m_segment(std::move(segment)) {}

  /// Copies the bytes in; their offset, or nullopt when the slab has no room for them.
  std::optional<std::uint64_t> append(std::span<const std::byte> bytes) {
    const std::size_t room = round_up(bytes.size(), alignment);
    std::uint64_t offset = m_used.load(std::memory_order_relaxed);
    do {
      if (room > m_segment.size() - offset) return std::nullopt;
    } while (!m_used.compare_exchange_weak(offset, offset + room, std::memory_order_relaxed));
    std::ranges::copy(bytes, m_segment.data() + offset);
    return offset;
  }
  [[nodiscard]] const MemorySegment& segment() const { return m_segment; }

 private:
  MemorySegment m_segment;
  std::atomic<std::uint64_t> m_used{0};
};

/// The memory of a slab that its maker alone may write. Huge pages only where the last of them, half used, weighs little.
inline MemorySegment make_slab_segment(std::size_t bytes) {
  constexpr std::size_t least_for_huge_pages = std::size_t{64} << 20;
  MemorySegment segment = MemorySegment::create("cache slab", bytes, bytes >= least_for_huge_pages ? HugePages::where_allowed : HugePages::never);
  segment.forbid_future_writers();
  return segment;
}

/// The slabs that one process has mapped, by number: a reader finds one without a lock; none ever goes. Threads: any.
class SlabTable {
 public:
  static constexpr std::uint32_t most_slabs = 4096;

  /// nullptr when this process has not mapped it.
  [[nodiscard]] Slab* find(std::uint32_t number) const { return number < most_slabs ? m_slabs[number].load(std::memory_order_acquire) : nullptr; }
  /// Where bytes lie; nullptr when the slab is not mapped here or does not have them all.
  [[nodiscard]] const std::byte* address(std::uint32_t number, std::uint64_t offset, std::uint64_t length) const {
    const Slab* const slab = find(number);
    if (slab == nullptr || offset > slab->segment().size() || length > slab->segment().size() - offset) return nullptr;
    return slab->segment().data() + offset;
  }
  /// Keeps a slab under its number; the one that has the number already stays. nullptr for a number that cannot be.
  Slab* keep(std::uint32_t number, std::unique_ptr<Slab> slab) {
    const std::scoped_lock lock(m_mutex);
    return install(number, std::move(slab));
  }
  /// Keeps a slab under the next number; nullopt when `most` are there.
  std::optional<std::uint32_t> add(std::unique_ptr<Slab> slab, std::size_t most) {
    const std::scoped_lock lock(m_mutex);
    const auto number = static_cast<std::uint32_t>(m_owned.size());
    if (number >= most || install(number, std::move(slab)) == nullptr) return std::nullopt;
    return number;
  }

 private:
  Slab* install(std::uint32_t number, std::unique_ptr<Slab> slab) {
    if (number >= most_slabs) return nullptr;
    if (Slab* const there = find(number)) return there;
    m_owned.push_back(std::move(slab));
    m_slabs[number].store(m_owned.back().get(), std::memory_order_release);
    return m_owned.back().get();
  }

  std::mutex m_mutex;
  std::vector<std::unique_ptr<Slab>> m_owned;
  std::array<std::atomic<Slab*>, most_slabs> m_slabs{};
};

}  // namespace dsanalyze
