#include "assignment.hpp"

#include <algorithm>

namespace dsanalyze {

std::span<const SampleId> Assignment::slice(std::span<const SampleId> global, int rank, int world) {
  const auto size = global.size();
  const auto w = static_cast<std::size_t>(world);
  const auto r = static_cast<std::size_t>(rank);
  const std::size_t begin = size / w * r + std::min(r, size % w);
  return global.subspan(begin, size / w + (r < size % w ? 1 : 0));
}

void BatchParts::reset(const AliveRanks& alive) {
  m_alive = alive;
  m_living.clear();
  for (std::uint32_t rank = 0; rank < alive.ranks(); ++rank) {
    if (alive.alive(rank)) m_living.push_back(static_cast<RankNumber>(rank));
  }
  for (auto* table : {&m_targets, &m_begins, &m_ends}) table->assign(alive.ranks(), 0);
}

void BatchParts::begin(std::size_t batch) {
  if (m_samples.size() < batch) {
    m_samples.resize(batch);
    m_sources.resize(batch);
  }
  std::size_t at = 0;
  for (std::size_t place = 0; place < m_living.size(); ++place) {
    const RankNumber rank = m_living[place];
    const std::size_t size = batch / m_living.size() + (place < batch % m_living.size() ? 1 : 0);
    m_targets[rank] = static_cast<std::uint32_t>(size);
    m_begins[rank] = m_ends[rank] = static_cast<std::uint32_t>(at);
    at += size;
  }
}

std::span<const SampleId> BatchParts::samples(std::uint32_t rank) const {
  return std::span<const SampleId>(m_samples).subspan(m_begins[rank], m_ends[rank] - m_begins[rank]);
}

std::span<const RankNumber> BatchParts::sources(std::uint32_t rank) const {
  return std::span<const RankNumber>(m_sources).subspan(m_begins[rank], m_ends[rank] - m_begins[rank]);
}

}  // namespace dsanalyze
