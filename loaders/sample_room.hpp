#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/system/shared_memory.hpp"

namespace dsanalyze {

/// Where a sample of a size of its own lies, in the room of its batch. Batches of such samples have one of these for each, as bytes of the tensor.
struct PreparedSample {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t height = 0;  ///< in pixels; 0 of encoded samples
  std::uint32_t width = 0;
};

/// Memory for samples whose sizes are not known before they are prepared, in pieces that are used again. It keeps as many free pieces as are in use,
/// at most. Threads: any.
class SampleMemory {
 public:
  /// Samples that are smaller share a piece of so many bytes; a larger one has a piece of its own.
  static constexpr std::size_t piece_bytes = std::size_t{8} << 20;

  /// A piece of at least `bytes`. Throws Error when there is no memory.
  ZeroedMemory take(std::size_t bytes);
  void give_back(std::vector<ZeroedMemory> pieces);
  /// That wait to be used again.
  [[nodiscard]] std::size_t free_pieces() const;

 private:
  mutable std::mutex m_mutex;
  std::vector<ZeroedMemory> m_free;
  std::size_t m_used = 0;
};

/// The samples of one batch, each of a size of its own. Threads: take() any; clear() when no sample is in use any more.
class SampleRoom {
 public:
  explicit SampleRoom(SampleMemory& memory) : m_memory(memory) {}
  /// Room for one more sample, on a boundary of 64 bytes; it stays until clear(). Empty when there is no memory.
  std::span<std::byte> take(std::size_t bytes);
  /// Gives the room of all samples back.
  void clear();

 private:
  SampleMemory& m_memory;
  std::mutex m_mutex;
  std::vector<ZeroedMemory> m_pieces;
  std::size_t m_used = 0;             ///< of the last piece
  std::vector<ZeroedMemory> m_large;  ///< pieces of one sample each
};

}  // namespace dsanalyze
