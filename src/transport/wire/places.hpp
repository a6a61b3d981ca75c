#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "core/partition/peers.hpp"

namespace dsanalyze::transport {

/// Places for requests in flight, each with a buffer for its sample. Threads: any, at once; a place that is taken belongs to the thread that took it.
class Places {
 public:
  Places(std::uint32_t places, Bytes largest_sample);
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(m_taken.size()); }
  [[nodiscard]] Bytes largest() const { return m_largest; }
  [[nodiscard]] std::size_t free() const;
  /// All or none of `numbers`.
  bool take(std::span<std::uint32_t> numbers);
  /// Has the system give a taken place's buffer that many bytes of memory, where it has not yet: by the thread that took it, for the first touch of
  /// memory may take long, and the threads of connections are to say that this rank is alive.
  void touch(std::uint32_t number, Bytes bytes);
  /// What is not taken stays as it is: a buffer that is given back twice is not lent to two.
  void give_back(std::span<const std::uint32_t> numbers);
  [[nodiscard]] std::span<std::byte> buffer(std::uint32_t number) const { return m_memory.bytes().subspan(number * m_stride, m_largest); }

 private:
  Bytes m_largest;
  std::size_t m_stride;
  ZeroedMemory m_memory;
  mutable std::mutex m_mutex;
  std::vector<std::uint32_t> m_free;  ///< last in, first out: a buffer used just now is in the processor's caches
  std::vector<char> m_taken;
  std::vector<Bytes> m_touched;  ///< of each buffer; only the thread that took it uses it
};

}  // namespace dsanalyze::transport
