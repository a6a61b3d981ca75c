#pragma once

#include <cstddef>
#include <span>

namespace dsanalyze {

/// Zeroed memory of this process for large tables that are looked up all over: in huge pages where the system grants them, so that fewer address
/// translations miss. Pages are taken as they are touched. Aligned to at least 4096 bytes. Throws Error with the size when there is no memory.
class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  explicit ZeroedMemory(std::size_t bytes);
  ZeroedMemory(ZeroedMemory&& other) noexcept;
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept;
  ZeroedMemory(const ZeroedMemory&) = delete;
  ZeroedMemory& operator=(const ZeroedMemory&) = delete;
  ~ZeroedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return m_bytes; }

 private:
  std::span<std::byte> m_bytes;
};

}  // namespace dsanalyze
