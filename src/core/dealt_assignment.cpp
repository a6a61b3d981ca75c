#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/core/assignment.hpp"

namespace dsanalyze {

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

/// Of equal room the lower rank comes first.
bool DealtAssignment::less_room(const Room& a, const Room& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.rank > b.rank; }

std::span<const SampleId> DealtAssignment::mine(std::span<const SampleId> global) {
  m_parts.begin(global.size());
  if (m_parts.living().empty()) return {};
  m_sized.clear();
  for (std::uint32_t at = 0; at < global.size(); ++at) m_sized.push_back({m_records[global[at]].length, at});
  std::ranges::sort(m_sized, [](const Sized& a, const Sized& b) { return a.length != b.length ? a.length > b.length : a.at < b.at; });

  m_heap.clear();
  for (const RankNumber rank : m_parts.living()) {
    m_left[rank] = m_parts.target(rank);
    if (m_left[rank] > 0) m_heap.push_back({static_cast<std::int64_t>(std::min<Bytes>(m_room[rank], INT64_MAX)), rank});
  }
  std::ranges::make_heap(m_heap, less_room);
  m_ranks.resize(global.size());
  for (const Sized& sample : m_sized) {
    std::ranges::pop_heap(m_heap, less_room);
    Room& most = m_heap.back();
    m_ranks[sample.at] = most.rank;
    if (--m_left[most.rank] == 0) {
      m_heap.pop_back();
      continue;
    }
    most.bytes -= static_cast<std::int64_t>(sample.length);
    std::ranges::push_heap(m_heap, less_room);
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
