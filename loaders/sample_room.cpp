#include "sample_room.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t sample_alignment = 64;

}  // namespace

ZeroedMemory SampleMemory::take(std::size_t bytes) {
  {
    const std::scoped_lock lock(m_mutex);
    if (bytes <= piece_bytes && !m_free.empty()) {
      ZeroedMemory piece = std::move(m_free.back());
      m_free.pop_back();
      ++m_used;
      return piece;
    }
  }
  ZeroedMemory piece(std::max(bytes, piece_bytes));
  const std::scoped_lock lock(m_mutex);
  ++m_used;
  return piece;
}

void SampleMemory::give_back(std::vector<ZeroedMemory> pieces) {
  const std::scoped_lock lock(m_mutex);
  m_used -= pieces.size();
  for (ZeroedMemory& piece : pieces) {
    if (piece.bytes().size() == piece_bytes && m_free.size() < m_used) m_free.push_back(std::move(piece));
  }
}

std::size_t SampleMemory::free_pieces() const {
  const std::scoped_lock lock(m_mutex);
  return m_free.size();
}

std::span<std::byte> SampleRoom::take(std::size_t bytes) {
  const std::size_t room = round_up(bytes, sample_alignment);
  const std::scoped_lock lock(m_mutex);
  try {
    if (room > SampleMemory::piece_bytes) return m_large.emplace_back(m_memory.take(room)).bytes().first(bytes);
    if (m_pieces.empty() || SampleMemory::piece_bytes - m_used < room) {
      m_pieces.push_back(m_memory.take(room));
      m_used = 0;
    }
  } catch (const std::exception&) {  // no memory, for the piece or for the list of them
    return {};
  }
  return m_pieces.back().bytes().subspan(std::exchange(m_used, m_used + room), bytes);
}

void SampleRoom::clear() {
  const std::scoped_lock lock(m_mutex);
  m_memory.give_back(std::exchange(m_pieces, {}));
  m_memory.give_back(std::exchange(m_large, {}));
  m_used = 0;
}

}  // namespace dsanalyze
