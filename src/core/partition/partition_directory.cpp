#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
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

namespace {

void check_tables(const HeldByRanks& held, std::uint64_t samples) {
  const std::size_t ranks = held.capacities.size();
  if (ranks == 0 || ranks > most_ranks) throw Error(fmt::format("a dataset partitioned over {} ranks: there can be 1 to {}", ranks, most_ranks));
  if (held.free.size() != ranks || held.bitmaps.size() != ranks * held_bitmap_bytes(samples)) {
    throw Error(fmt::format("{} ranks say what they hold of {} samples in {} bytes and {} sizes of free room: expected {} and {}", ranks, samples,
                            held.bitmaps.size(), held.free.size(), ranks * held_bitmap_bytes(samples), ranks));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (held.free[rank] > held.capacities[rank])
      throw Error(fmt::format("rank {} says that {} bytes of its cache of {} are free", rank, held.free[rank], held.capacities[rank]));
  }
}

std::vector<RankNumber> primaries_of(const HeldByRanks& held, std::uint64_t samples) {
  std::vector<RankNumber> primaries(samples, no_rank);
  const std::size_t row_bytes = held_bitmap_bytes(samples);
  for (std::size_t rank = 0; rank < held.capacities.size(); ++rank) {
    const auto row = held.bitmaps.subspan(rank * row_bytes, row_bytes);
    for (std::size_t at = 0; at < row_bytes; ++at) {
      for (auto bits = std::to_integer<unsigned>(row[at]); bits != 0; bits &= bits - 1) {
        const std::size_t sample = at * 8 + static_cast<std::size_t>(std::countr_zero(bits));
        if (sample < samples && primaries[sample] == no_rank) primaries[sample] = static_cast<RankNumber>(rank);
      }
    }
  }
  return primaries;
}

/// Of equal room the lower rank comes first.
struct RoomOfRank {
  Bytes bytes = 0;
  RankNumber rank = 0;
};
bool less_of_room(const RoomOfRank& a, const RoomOfRank& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.rank > b.rank; }

/// Hands the unheld samples out, the largest first; `room` is what is left then.
void adopt_unheld(std::span<const IndexRecord> records, std::vector<Bytes>& room, std::vector<RankNumber>& primaries, MadeDirectory& made) {
  std::vector<SampleId> unheld;
  for (std::size_t sample = 0; sample < records.size(); ++sample) {
    if (primaries[sample] == no_rank) unheld.push_back(static_cast<SampleId>(sample));
  }
  std::ranges::sort(unheld,
                    [&](SampleId a, SampleId b) { return records[a].length != records[b].length ? records[a].length > records[b].length : a < b; });
  std::vector<RoomOfRank> heap;
  for (std::size_t rank = 0; rank < room.size(); ++rank) heap.push_back({room[rank], static_cast<RankNumber>(rank)});
  std::ranges::make_heap(heap, less_of_room);
  for (const SampleId sample : unheld) {
    const Bytes length = records[sample].length;
    if (length > heap.front().bytes) {
      ++made.nowhere;
      made.nowhere_bytes += length;
      continue;
    }
    std::ranges::pop_heap(heap, less_of_room);
    heap.back().bytes -= length;
    primaries[sample] = heap.back().rank;
    made.adopted[heap.back().rank].push_back(sample);
    std::ranges::push_heap(heap, less_of_room);
  }
  for (const RoomOfRank& each : heap) room[each.rank] = each.bytes;
  for (auto& samples : made.adopted) std::ranges::sort(samples);
}

/// How deep each rank's room goes, in whole copies and parts of one.
ReplicaRule replica_rule(std::span<const IndexRecord> records, std::span<const RankNumber> primaries, std::span<const Bytes> room,
                         std::span<const Bytes> capacities) {
  const auto ranks = static_cast<std::uint32_t>(room.size());
  double dataset = 0;
  double aggregate = 0;
  for (const IndexRecord& record : records) dataset += static_cast<double>(record.length);
  for (const Bytes capacity : capacities) aggregate += static_cast<double>(capacity);
  ReplicaRule rule;
  if (dataset > 0) rule.copies = static_cast<std::uint32_t>(std::clamp(std::ceil(aggregate / dataset), 1.0, static_cast<double>(ranks)));
  if (rule.copies == 1) return rule;

  std::vector<std::array<Bytes, ReplicaRule::steps>> parts(ranks);  // of each primary's bytes
  for (std::size_t sample = 0; sample < records.size(); ++sample) {
    if (primaries[sample] != no_rank) parts[primaries[sample]][replica_step(static_cast<SampleId>(sample))] += records[sample].length;
  }
  const std::uint32_t stride = replica_stride(ranks, rule.copies);
  rule.depths.resize(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Bytes left = room[rank];
    const std::uint32_t deepest = (rule.copies - 1) * ReplicaRule::steps;
    std::uint32_t& depth = rule.depths[rank];
    for (; depth < deepest; ++depth) {
      const std::uint32_t copy = depth / ReplicaRule::steps + 1;
      const Bytes bytes = parts[(rank + ranks - copy * stride) % ranks][depth % ReplicaRule::steps];
      if (bytes > left) break;
      left -= bytes;
    }
  }
  return rule;
}

}  // namespace

MadeDirectory make_directory(const HeldByRanks& held, std::span<const IndexRecord> records) {
  check_tables(held, records.size());
  const auto ranks = static_cast<std::uint32_t>(held.capacities.size());
  std::vector<RankNumber> primaries = primaries_of(held, records.size());
  std::vector<Bytes> room(held.free.begin(), held.free.end());
  MadeDirectory made{PartitionDirectory({}, ranks), std::vector<std::vector<SampleId>>(ranks), 0, 0};
  adopt_unheld(records, room, primaries, made);
  ReplicaRule rule = replica_rule(records, primaries, room, held.capacities);
  made.directory = PartitionDirectory(std::move(primaries), ranks, std::move(rule));
  return made;
}

}  // namespace dsanalyze
