#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "fetch_engine.hpp"

namespace dsanalyze {

/// The places of an engine, and the memory for what is read into them: pages of an arena that all places share, so that the arena is as large as the
/// samples that are held at once, not as the largest sample times the places. A place is taken at submit() and given back, with its memory, at
/// release().
///
/// The arena asks for huge pages. They halve what a direct read costs a virtual disk: 110 KB in 4 KiB pages are 27 segments of one request, and the
/// disk's queue has room for nine such requests; in a huge page they are one. (Registering the same memory with io_uring changed nothing more: 2626
/// against 2600 MB/s, and 1292 against 1266 in small pages.)
/// Threads: any; a place's memory belongs to who took it. Allocation: none once the arena holds the most that was ever held at once.
class BufferPool {
 public:
  explicit BufferPool(std::size_t places);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Takes ids.size() places, or none when fewer are free.
  bool take(std::span<std::uint32_t> ids);
  void give_back(std::span<const FetchBuffer> buffers);
  /// `bytes` and up to a page more of 4 KiB-aligned memory for a place that is taken; what it had before goes. Empty when the system has none.
  std::span<std::byte> memory(std::uint32_t id, std::size_t bytes);
  [[nodiscard]] std::size_t capacity() const { return m_places.size(); }
  [[nodiscard]] std::size_t free_places() const;
  /// Of the arena: the bytes up to the highest that was ever held, of every part. What the pool can cost at most.
  [[nodiscard]] std::size_t arena_bytes() const;

 private:
  /// One stretch of the arena, a bit a page.
  struct Region {
    std::byte* data = nullptr;
    std::vector<std::uint64_t> used;
    std::size_t free_pages = 0;
    std::size_t highest = 0;
  };
  /// One sample that is too large to share a region.
  struct Large {
    std::byte* data = nullptr;
    std::size_t size = 0;
    bool taken = false;
  };
  struct Place {
    std::byte* data = nullptr;
    std::size_t pages = 0;
    std::size_t part = 0;  ///< number of its region, or of its Large
    bool large = false;
  };

  bool take_pages(Place& place, std::size_t pages);
  bool take_large(Place& place, std::size_t bytes);
  bool add_region();
  void free_memory(Place& place);

  mutable std::mutex m_mutex;
  std::vector<std::uint32_t> m_free;
  std::vector<Place> m_places;
  std::vector<Region> m_regions;
  std::vector<Large> m_large;
};

}  // namespace dsanalyze
