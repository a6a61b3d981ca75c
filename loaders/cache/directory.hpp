#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/system/shared_memory.hpp"
#include "base/text/units.hpp"
#include "core/cache_policy/cache_policy.hpp"

namespace dsanalyze {

/// Which sample lies where: one entry a sample in a segment that the holder alone writes and every process of the server reads without a lock.
/// Keys given to it must be less than header().samples.
class CacheDirectory {
 public:
  struct Header {
    std::uint64_t capacity = 0;
    std::uint64_t samples = 0;
    std::uint64_t payload_bytes = 0;  ///< the most that can ever be held: the capacity, or the whole dataset
    std::atomic<std::uint64_t> items{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> free_bytes{0};  ///< what the policy still admits
    float least_priority = 0;                  ///< the policy admits accesses of this priority and above
  };
  struct Place {
    std::uint16_t slab = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
  };

  static std::size_t bytes_for(std::uint64_t samples) { return header_bytes + samples * sizeof(Entry); }
  /// A new directory, or a view of one that another process holds. The segment has at least bytes_for(0).
  explicit CacheDirectory(MemorySegment segment) : m_segment(std::move(segment)) {}
  /// Whether the segment has an entry for every sample that its header names.
  [[nodiscard]] bool whole() const { return header().samples <= (m_segment.size() - header_bytes) / sizeof(Entry); }

  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(m_segment.data()); }
  [[nodiscard]] std::optional<Place> find(std::uint64_t key) const {
    const Entry& entry = entries()[key];
    const std::uint64_t word = entry.where.load(std::memory_order_acquire);
    if (word == 0) return std::nullopt;
    return Place{static_cast<std::uint16_t>((word >> 48) - 1), word & offset_mask, entry.length.load(std::memory_order_relaxed)};
  }
  /// Whether the policy may admit it, were it not held: an access of which this is false need not be decided, it is a bypass.
  [[nodiscard]] bool may_admit(const CacheAccess& access) const {
    const float priority = access.priority > 0 ? access.priority : 0;  // as the policy counts it
    return priority >= header().least_priority && access.bytes <= header().free_bytes.load(std::memory_order_relaxed);
  }
  /// The holder: a key that is admitted and not published yet may take so many bytes (0: no longer).
  void promise(std::uint64_t key, std::uint32_t bytes) { entries()[key].length.store(bytes, std::memory_order_relaxed); }
  /// What is promised for a key that is not published yet.
  [[nodiscard]] std::uint32_t promised(std::uint64_t key) const { return entries()[key].length.load(std::memory_order_relaxed); }
  void publish(std::uint64_t key, const Place& place) {
    Entry& entry = entries()[key];
    entry.length.store(place.length, std::memory_order_relaxed);
    entry.where.store((std::uint64_t{place.slab} + 1) << 48 | place.offset, std::memory_order_release);
    header().items.fetch_add(1, std::memory_order_relaxed);
    header().bytes.fetch_add(place.length, std::memory_order_relaxed);
  }
  /// Size of a slab that takes everything that can still be published, to whichever process it is promised, each item rounded up to `alignment`: a
  /// process that makes a slab of this size never needs a second one, since what is published stays.
  [[nodiscard]] std::size_t slab_bytes(std::size_t alignment) const {
    const std::uint64_t bytes = header().bytes.load(std::memory_order_relaxed);
    const std::uint64_t items = header().items.load(std::memory_order_relaxed);
    const std::uint64_t payload = header().payload_bytes - std::min(bytes, header().payload_bytes);
    return payload + (header().samples - std::min(items, header().samples) + 1) * alignment;
  }
  [[nodiscard]] const MemorySegment& segment() const { return m_segment; }
  void forbid_future_writers() { m_segment.forbid_future_writers(); }

 private:
  struct Entry {
    std::atomic<std::uint64_t> where{0};  // slab + 1 in the top 16 bits, offset below; 0: not held
    std::atomic<std::uint32_t> length{0};
  };
  static constexpr std::size_t header_bytes = 4096;
  static constexpr std::uint64_t offset_mask = (std::uint64_t{1} << 48) - 1;
  [[nodiscard]] Entry* entries() const { return reinterpret_cast<Entry*>(m_segment.data() + header_bytes); }

  MemorySegment m_segment;
};

}  // namespace dsanalyze
