#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "dsanalyze/loaders/fetch_engine.hpp"

namespace dsanalyze {

/// The places of an engine: each is a page-aligned buffer that grows to the largest sample it has held. A place is taken at submit() and given back
/// at release(). Threads: any; a place's memory belongs to who took it.
class BufferPool {
 public:
  explicit BufferPool(std::size_t places);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Takes ids.size() places, or none when fewer are free.
  bool take(std::span<std::uint32_t> ids);
  void give_back(std::span<const FetchBuffer> buffers);
  /// At least `bytes` of 4 KiB-aligned memory of that place; empty when the system has none.
  std::span<std::byte> memory(std::uint32_t id, std::size_t bytes);
  [[nodiscard]] std::size_t capacity() const { return m_buffers.size(); }
  [[nodiscard]] std::size_t free_places() const;

 private:
  struct Buffer {
    std::byte* data = nullptr;
    std::size_t size = 0;
  };
  mutable std::mutex m_mutex;
  std::vector<std::uint32_t> m_free;
  std::vector<Buffer> m_buffers;
};

}  // namespace dsanalyze
