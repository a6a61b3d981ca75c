#include "places.hpp"

#include <algorithm>

namespace dsanalyze::transport {
namespace {

constexpr std::size_t page_bytes = 4096;
// One buffer's start is not at the same offset of a page as all others': equal offsets compete for the same lines of the processor's caches.
constexpr std::size_t skew_bytes = 192;

}  // namespace

Places::Places(std::uint32_t places, Bytes largest_sample)
    : m_largest(largest_sample),
      m_stride(round_up(largest_sample, page_bytes) + skew_bytes),
      m_memory(std::max<std::size_t>(places * m_stride, 1)),
      m_taken(places, 0),
      m_touched(places, 0) {
  m_free.reserve(places);
  for (std::uint32_t number = places; number > 0; --number) m_free.push_back(number - 1);
}

std::size_t Places::free() const {
  const std::scoped_lock lock(m_mutex);
  return m_free.size();
}

bool Places::take(std::span<std::uint32_t> numbers) {
  const std::scoped_lock lock(m_mutex);
  if (m_free.size() < numbers.size()) return false;
  for (std::uint32_t& number : numbers) {
    number = m_free.back();
    m_free.pop_back();
    m_taken[number] = 1;
  }
  return true;
}

void Places::touch(std::uint32_t number, Bytes bytes) {
  Bytes& touched = m_touched[number];
  if (bytes <= touched) return;
  const std::span<std::byte> memory = buffer(number).first(bytes);
  for (std::size_t at = touched; at < memory.size(); at += page_bytes) memory[at] = std::byte{};
  memory.back() = std::byte{};
  touched = bytes;
}

void Places::give_back(std::span<const std::uint32_t> numbers) {
  const std::scoped_lock lock(m_mutex);
  for (const std::uint32_t number : numbers) {
    if (number >= m_taken.size() || m_taken[number] == 0) continue;
    m_taken[number] = 0;
    m_free.push_back(number);
  }
}

}  // namespace dsanalyze::transport
