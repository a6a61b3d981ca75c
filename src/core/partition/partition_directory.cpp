#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "partition.hpp"

namespace dsanalyze {

AliveRanks::AliveRanks(std::uint32_t ranks) : m_ranks(ranks) {
  if (ranks == 0 || ranks > most_ranks) throw Error(fmt::format("a job of {} ranks: there can be 1 to {}", ranks, most_ranks));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) m_alive.set(rank);
}

std::uint32_t AliveRanks::place(std::uint32_t rank) const {
  std::uint32_t before = 0;
  for (std::uint32_t other = 0; other < std::min(rank, m_ranks); ++other) before += m_alive[other] ? 1 : 0;
  return before;
}

void AliveRanks::lose(std::uint32_t rank) {
  if (rank < m_ranks) m_alive.reset(rank);
}

std::uint32_t replica_stride(std::uint32_t ranks, std::uint32_t copies) { return ranks / copies; }

PartitionDirectory::PartitionDirectory(std::vector<RankNumber> primaries, std::uint32_t ranks, ReplicaRule rule)
    : m_primaries(std::move(primaries)), m_ranks(ranks), m_stride(0), m_rule(std::move(rule)) {
  if (ranks == 0 || ranks > most_ranks) throw Error(fmt::format("a directory of {} ranks: there can be 1 to {}", ranks, most_ranks));
  if (m_rule.depths.empty()) m_rule.depths.resize(ranks);
  if (m_rule.depths.size() != ranks || m_rule.copies == 0 || m_rule.copies > ranks) {
    throw Error(fmt::format("a directory of {} ranks cannot have {} copies on {} of them", ranks, m_rule.copies, m_rule.depths.size()));
  }
  for (std::size_t sample = 0; sample < m_primaries.size(); ++sample) {
    const RankNumber primary = m_primaries[sample];
    if (primary >= ranks && primary != no_rank)
      throw Error(fmt::format("the directory has sample {} with rank {} of a job of {} ranks", sample, primary, ranks));
  }
  m_stride = replica_stride(ranks, m_rule.copies);
}

bool PartitionDirectory::takes_copy(std::uint32_t rank, std::uint32_t copy, SampleId sample) const {
  return (copy - 1) * ReplicaRule::steps + replica_step(sample) < m_rule.depths[rank];
}

std::uint32_t PartitionDirectory::copies(SampleId sample) const {
  const RankNumber first = primary(sample);
  if (first == no_rank) return 0;
  std::uint32_t count = 1;
  for (std::uint32_t copy = 1; copy < m_rule.copies; ++copy) count += takes_copy(rank_of_copy(first, copy), copy, sample) ? 1 : 0;
  return count;
}

bool PartitionDirectory::is_holder(std::uint32_t rank, SampleId sample) const {
  const RankNumber first = primary(sample);
  if (first == no_rank || rank >= m_ranks) return false;
  const std::uint32_t distance = (rank + m_ranks - first) % m_ranks;
  if (distance == 0) return true;
  const std::uint32_t copy = distance / m_stride;
  return distance % m_stride == 0 && copy < m_rule.copies && takes_copy(rank, copy, sample);
}

std::optional<std::uint32_t> PartitionDirectory::next_to_ask(SampleId sample, std::uint32_t self, const AliveRanks& alive,
                                                             std::uint32_t attempt) const {
  const RankNumber first = primary(sample);
  if (first == no_rank) return std::nullopt;
  std::uint32_t passed = 0;
  for (std::uint32_t copy = 0; copy < m_rule.copies; ++copy) {
    const std::uint32_t rank = rank_of_copy(first, copy);
    if (rank == self || !alive.alive(rank) || (copy > 0 && !takes_copy(rank, copy, sample))) continue;
    if (passed++ == attempt) return rank;
  }
  return std::nullopt;
}

RankNumber PartitionDirectory::first_alive(SampleId sample, const AliveRanks& alive) const {
  const RankNumber first = primary(sample);
  if (first == no_rank || alive.alive(first)) return first;
  return static_cast<RankNumber>(next_to_ask(sample, no_rank, alive, 0).value_or(no_rank));
}

}  // namespace dsanalyze
