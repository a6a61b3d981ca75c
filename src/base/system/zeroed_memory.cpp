#include "zeroed_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

ZeroedMemory::ZeroedMemory(std::size_t bytes) {
  if (bytes == 0) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(fmt::format("no memory for a table of {}", format_bytes(bytes)));
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // refused where the kernel has none: then it is in small ones
  m_bytes = {static_cast<std::byte*>(memory), bytes};
}

ZeroedMemory::ZeroedMemory(ZeroedMemory&& other) noexcept : m_bytes(std::exchange(other.m_bytes, {})) {}

ZeroedMemory& ZeroedMemory::operator=(ZeroedMemory&& other) noexcept {
  std::swap(m_bytes, other.m_bytes);
  return *this;
}

ZeroedMemory::~ZeroedMemory() {
  if (!m_bytes.empty()) ::munmap(m_bytes.data(), m_bytes.size());
}

}  // namespace dsanalyze
