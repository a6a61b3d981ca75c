#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace dsanalyze {

/// Memory for pixels that grows to what the largest image needed. What a huge image took is given back by trim(), so that one image in a dataset
/// does not set the size of every worker.
class PixelBuffer {
 public:
  static constexpr std::size_t most_kept_bytes = std::size_t{16} << 20;

  /// False if there is no memory; what the buffer held is lost either way.
  [[nodiscard]] bool reserve(std::size_t bytes) {
    if (bytes <= m_bytes) return true;
    m_memory.reset();
    m_memory.reset(new (std::nothrow) std::uint8_t[bytes]);
    m_bytes = m_memory ? bytes : 0;
    return m_memory != nullptr;
  }
  void trim() {
    if (m_bytes <= most_kept_bytes) return;
    m_memory.reset();
    m_bytes = 0;
  }
  [[nodiscard]] std::uint8_t* data() const { return m_memory.get(); }

 private:
  std::unique_ptr<std::uint8_t[]> m_memory;
  std::size_t m_bytes = 0;
};

}  // namespace dsanalyze
