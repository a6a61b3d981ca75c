#include <fmt/format.h>

#include <algorithm>

#include "assignment.hpp"
#include "base/error.hpp"
#include "largest_first.hpp"

namespace dsanalyze {
namespace {

// An element of the heap: room above, the rank reversed in the lowest bits, so that of equal room the lower rank is the greater element. Room is what
// is left above `no_room`; a batch may deal more than fits.
constexpr unsigned rank_bits = 12;
static_assert(most_ranks == 1U << rank_bits);
constexpr std::uint64_t no_room = std::uint64_t{1} << (63 - rank_bits);

std::uint64_t room_element(Bytes room, RankNumber rank) {
  return (no_room + std::min<Bytes>(room, no_room - 1)) << rank_bits | (most_ranks - 1 - rank);
}
RankNumber rank_of_room(std::uint64_t element) { return static_cast<RankNumber>(most_ranks - 1 - element % most_ranks); }
std::uint64_t less_room(std::uint64_t element, Bytes bytes) { return element - (std::min<Bytes>(bytes, element >> rank_bits) << rank_bits); }

}  // namespace

DealtAssignment::DealtAssignment(std::span<const IndexRecord> records, std::span<const Bytes> capacities, std::uint32_t self)
    : m_records(records),
      m_capacities(capacities.begin(), capacities.end()),
      m_self(self),
      m_parts(AliveRanks(static_cast<std::uint32_t>(capacities.size()))),
      m_room(m_capacities),
      m_left(capacities.size()) {
  if (self >= capacities.size()) throw Error(fmt::format("samples cannot be dealt to rank {} of {}", self, capacities.size()));
}

void DealtAssignment::reset(const AliveRanks& alive) {
  if (alive.ranks() != m_capacities.size())
    throw Error(fmt::format("samples are dealt to {} ranks, but {} have told what their caches hold", alive.ranks(), m_capacities.size()));
  m_parts.reset(alive);
  m_room = m_capacities;
}

std::span<const SampleId> DealtAssignment::mine(std::span<const SampleId> global) {
  m_parts.begin(global.size());
  if (m_parts.living().empty()) return {};
  m_sized.clear();
  for (std::uint32_t at = 0; at < global.size(); ++at) m_sized.push_back(std::min<Bytes>(m_records[global[at]].length, UINT32_MAX) << 32 | at);
  sort_by_upper_half(m_sized, m_sized_scratch);

  m_heap.clear();
  for (const RankNumber rank : m_parts.living()) {
    m_left[rank] = m_parts.target(rank);
    if (m_left[rank] > 0) m_heap.push_back(room_element(m_room[rank], rank));
  }
  std::ranges::make_heap(m_heap);
  m_ranks.resize(global.size());
  for (const std::uint64_t sample : m_sized) {
    const std::uint64_t most = m_heap.front();
    const RankNumber rank = rank_of_room(most);
    m_ranks[static_cast<std::uint32_t>(sample)] = rank;
    if (--m_left[rank] > 0) {
      replace_largest(m_heap, less_room(most, sample >> 32));
    } else {
      std::ranges::pop_heap(m_heap);
      m_heap.pop_back();
    }
  }
  for (std::size_t at = 0; at < global.size(); ++at) {
    const RankNumber rank = m_ranks[at];
    m_parts.add(rank, global[at], no_rank);
    const Bytes length = m_records[global[at]].length;
    if (length <= m_room[rank]) m_room[rank] -= length;
  }
  return m_parts.samples(m_self);
}

}  // namespace dsanalyze
