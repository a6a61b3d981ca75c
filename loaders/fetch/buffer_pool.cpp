#include "buffer_pool.hpp"

#include <sys/mman.h>

#include <bit>
#include <numeric>

namespace dsanalyze {

BufferPool::BufferPool(std::size_t places) : m_free(places), m_buffers(places) { std::iota(m_free.rbegin(), m_free.rend(), 0U); }

BufferPool::~BufferPool() {
  for (const Buffer& buffer : m_buffers) {
    if (buffer.data != nullptr) munmap(buffer.data, buffer.size);
  }
}

bool BufferPool::take(std::span<std::uint32_t> ids) {
  const std::scoped_lock lock(m_mutex);
  if (m_free.size() < ids.size()) return false;
  for (auto& id : ids) {
    id = m_free.back();
    m_free.pop_back();
  }
  return true;
}

void BufferPool::give_back(std::span<const FetchBuffer> buffers) {
  const std::scoped_lock lock(m_mutex);
  for (const FetchBuffer& buffer : buffers) {
    if (buffer.id != FetchBuffer::none) m_free.push_back(buffer.id);
  }
}

std::size_t BufferPool::free_places() const {
  const std::scoped_lock lock(m_mutex);
  return m_free.size();
}

std::span<std::byte> BufferPool::memory(std::uint32_t id, std::size_t bytes) {
  constexpr std::size_t least = std::size_t{64} << 10;
  Buffer& buffer = m_buffers[id];
  if (buffer.size < bytes) {
    const std::size_t wanted = std::bit_ceil(std::max(bytes, least));
    void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
    if (buffer.data != nullptr) munmap(buffer.data, buffer.size);
    buffer = {static_cast<std::byte*>(memory), wanted};
  }
  return {buffer.data, buffer.size};
}

}  // namespace dsanalyze
