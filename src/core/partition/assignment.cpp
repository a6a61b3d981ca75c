#include "assignment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "balance.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

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

LocalityAssignment::LocalityAssignment(const PartitionDirectory& directory, std::uint32_t self, BalanceFrom from)
    : m_directory(directory), m_self(self), m_from(from), m_parts(AliveRanks(directory.ranks())) {
  if (self >= directory.ranks()) throw Error(fmt::format("the directory is of {} ranks: there is no rank {}", directory.ranks(), self));
}

void LocalityAssignment::reset(const AliveRanks& alive) {
  if (alive.ranks() != m_directory.ranks())
    throw Error(fmt::format("the directory is of {} ranks, but {} take part", m_directory.ranks(), alive.ranks()));
  m_parts.reset(alive);
}

std::span<const SampleId> LocalityAssignment::mine(std::span<const SampleId> global) {
  m_batch = m_parts.living().empty() ? 0 : global.size();
  m_parts.begin(m_batch);
  count_owners(global);
  share_out_unheld(global);
  balance();
  hand_out(global);
  return m_parts.samples(m_self);
}

void LocalityAssignment::count_owners(std::span<const SampleId> global) {
  const AliveRanks& alive = m_parts.alive();
  m_owners.resize(m_batch);
  m_kept.assign(m_directory.ranks(), 0);
  m_unheld = 0;
  for (std::size_t at = 0; at < m_batch; ++at) m_owners[at] = m_directory.first_alive(global[at], alive);
  for (const RankNumber owner : m_owners) ++(owner == no_rank ? m_unheld : m_kept[owner]);
  m_imbalances.assign(m_directory.ranks(), 0);
  for (const RankNumber rank : m_parts.living())
    m_imbalances[rank] = static_cast<std::int32_t>(m_kept[rank]) - static_cast<std::int32_t>(m_parts.target(rank));
}

/// Each rank gets what it lacks, up to a level that is the same for all; what is left over, less than one each, begins at a rank that follows from
/// the batch.
void LocalityAssignment::share_out_unheld(std::span<const SampleId> global) {
  m_from_storage.assign(m_directory.ranks(), 0);
  if (m_unheld == 0) return;
  const auto lacks = [&](RankNumber rank) { return static_cast<std::uint32_t>(std::max(-m_imbalances[rank], 0)); };
  const auto taken_up_to = [&](std::uint32_t level) {
    std::uint64_t sum = 0;
    for (const RankNumber rank : m_parts.living()) sum += std::min(lacks(rank), level);
    return sum;
  };
  std::uint32_t level = 0;  // the highest that the unheld ones reach
  std::uint32_t above = m_unheld + 1;
  while (above - level > 1) {
    const std::uint32_t middle = level + (above - level) / 2;
    (taken_up_to(middle) <= m_unheld ? level : above) = middle;
  }
  std::uint64_t left = m_unheld - taken_up_to(level);
  const std::size_t living = m_parts.living().size();
  const std::size_t start = mix(global.front(), m_batch) % living;
  for (std::size_t i = 0; i < living; ++i) {
    const RankNumber rank = m_parts.living()[(start + i) % living];
    std::uint32_t share = std::min(lacks(rank), level);
    if (left > 0 && lacks(rank) > level) {
      ++share;
      --left;
    }
    m_from_storage[rank] = share;
    m_imbalances[rank] += static_cast<std::int32_t>(share);
  }
}

void LocalityAssignment::balance() {
  m_transfers = m_balancer.balance(m_imbalances);
  const auto none = static_cast<std::uint32_t>(m_transfers.size());
  m_first.assign(m_directory.ranks(), none);
  m_next.resize(none);
  m_to_move.resize(none);
  for (std::uint32_t i = none; i-- > 0;) {
    const Transfer& transfer = m_transfers[i];
    m_next[i] = m_first[transfer.from];
    m_first[transfer.from] = i;
    m_to_move[i] = transfer.count;
    m_kept[transfer.from] -= transfer.count;
  }
}

void LocalityAssignment::hand_out(std::span<const SampleId> global) {
  std::size_t place = 0;  // among the living, of who takes the next unheld sample
  for (std::size_t at = 0; at < m_batch; ++at) {
    const RankNumber owner = m_owners[at];
    if (owner == no_rank) {
      while (m_from_storage[m_parts.living()[place]] == 0) ++place;
      const RankNumber taker = m_parts.living()[place];
      --m_from_storage[taker];
      m_parts.add(taker, global[at], no_rank);
    } else if (m_kept[owner] > 0) {
      --m_kept[owner];
      m_parts.add(owner, global[at], owner);
    } else {
      const std::uint32_t moving = m_first[owner];
      if (--m_to_move[moving] == 0) m_first[owner] = m_next[moving];
      m_parts.add(m_transfers[moving].to, global[at], m_from == BalanceFrom::peers ? owner : no_rank);
    }
  }
}

double LocalityAssignment::balance_traffic() const {
  std::uint64_t moved = 0;
  for (const Transfer& transfer : m_transfers) moved += transfer.count;
  return m_batch == 0 ? 0 : static_cast<double>(moved) / static_cast<double>(m_batch);
}

}  // namespace dsanalyze
