#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance.hpp"
#include "base/text/units.hpp"
#include "core/batch.hpp"
#include "core/index.hpp"
#include "core/sharing_modes.hpp"
#include "partition.hpp"

namespace dsanalyze {

// Which samples of a global mini-batch a rank trains: three ways, with parts of the same sizes. Each sample goes to one rank. Pure functions of what
// all ranks know, so each rank computes every rank's part alike. Threads: one an object. Allocation: none once they have seen as large a batch.

/// Maps the ids of a global mini-batch to ranks: consecutive slices whose sizes differ by at most one.
struct Assignment {
  static std::span<const SampleId> slice(std::span<const SampleId> global, int rank, int world);
};

/// A batch's parts, rank by rank, one after another; of the ranks that are alive. Each part keeps the batch's order.
class BatchParts {
 public:
  explicit BatchParts(const AliveRanks& alive) : m_alive(alive) { reset(alive); }
  void reset(const AliveRanks& alive);
  /// Makes room for a batch of so many, all parts empty. Target sizes are those of slices over the living ranks, in rank order; the dead have none.
  void begin(std::size_t batch);
  [[nodiscard]] const AliveRanks& alive() const { return m_alive; }
  /// Ranks that are alive, ascending.
  [[nodiscard]] std::span<const RankNumber> living() const { return m_living; }
  [[nodiscard]] std::uint32_t target(std::uint32_t rank) const { return m_targets[rank]; }
  /// Requires room in the rank's part. `source`: whom it takes the sample from, itself where it holds it, no_rank for storage.
  void add(std::uint32_t rank, SampleId sample, RankNumber source) {
    m_samples[m_ends[rank]] = sample;
    m_sources[m_ends[rank]++] = source;
  }
  [[nodiscard]] std::span<const SampleId> samples(std::uint32_t rank) const;
  [[nodiscard]] std::span<const RankNumber> sources(std::uint32_t rank) const;

 private:
  AliveRanks m_alive;
  std::vector<RankNumber> m_living;
  std::vector<std::uint32_t> m_targets, m_begins, m_ends;  ///< by rank
  std::vector<SampleId> m_samples;
  std::vector<RankNumber> m_sources;
};

/// The first epoch's parts [CoorDL, section 4.2]: exact sizes, and bytes that follow the room which the ranks' caches have left: the largest samples
/// to the ranks with most room, so that caches of one size fill alike (4 GiB and more count as equal). Room is counted from batch to batch as a cache
/// fills that takes what still fits, in the order of the rank's part. All come from storage.
class DealtAssignment {
 public:
  /// `records` must outlive this. `capacities`: by rank; unequal ones and empty ones are fine. Throws Error when there is not one for each rank.
  DealtAssignment(std::span<const IndexRecord> records, std::span<const Bytes> capacities, std::uint32_t self);
  /// Begins anew, with empty caches. Throws Error for another number of ranks.
  void reset(const AliveRanks& alive);
  /// This rank's part; empty for a rank that is not alive. Requires samples of the records. Valid until the next call.
  std::span<const SampleId> mine(std::span<const SampleId> global);
  [[nodiscard]] std::span<const SampleId> part(std::uint32_t rank) const { return m_parts.samples(rank); }
  /// Bytes that the rank's cache has left.
  [[nodiscard]] Bytes room(std::uint32_t rank) const { return m_room[rank]; }

 private:
  std::span<const IndexRecord> m_records;
  std::vector<Bytes> m_capacities;
  std::uint32_t m_self;
  BatchParts m_parts;
  std::vector<Bytes> m_room;
  std::vector<std::uint32_t> m_left;                    ///< by rank: samples to come
  std::vector<std::uint64_t> m_sized, m_sized_scratch;  ///< length above, place in the batch below
  std::vector<std::uint64_t> m_heap;                    ///< living ranks by their room
  std::vector<RankNumber> m_ranks;                      ///< by place in the batch
};

/// Locality-aware parts [Yang-Cong, section V]: each rank trains what it holds. A sample belongs to its first holder that is alive. What no live rank
/// holds comes from storage and goes to ranks that have too few, as evenly as their deficits allow. Then the surplus moves by Algorithm 1: of a rank
/// with too many the last ones, in the batch's order.
class LocalityAssignment {
 public:
  /// `directory` must outlive this.
  LocalityAssignment(const PartitionDirectory& directory, std::uint32_t self, BalanceFrom from = BalanceFrom::peers);
  /// Who takes part from the next batch on. Throws Error for another number of ranks.
  void reset(const AliveRanks& alive);
  /// This rank's part; empty for a rank that is not alive. Valid until the next call, as is all below.
  std::span<const SampleId> mine(std::span<const SampleId> global);
  /// Of each sample of mine(): this rank itself (it is the holder), the rank to ask, or no_rank: storage.
  [[nodiscard]] std::span<const RankNumber> sources() const { return m_parts.sources(m_self); }
  [[nodiscard]] std::span<const SampleId> part(std::uint32_t rank) const { return m_parts.samples(rank); }
  [[nodiscard]] std::span<const RankNumber> sources(std::uint32_t rank) const { return m_parts.sources(rank); }
  /// What balances the batch; with BalanceFrom::storage `to` reads it from there.
  [[nodiscard]] std::span<const Transfer> transfers() const { return m_transfers; }
  /// The share of the batch that balances it, beta of [Yang-Cong, Eq 8]: network traffic, or with BalanceFrom::storage reads from there. 0 for an
  /// empty batch.
  [[nodiscard]] double balance_traffic() const;
  /// Samples of the batch that no living rank holds.
  [[nodiscard]] std::uint32_t unheld() const { return m_unheld; }

 private:
  void count_owners(std::span<const SampleId> global);
  void share_out_unheld(std::span<const SampleId> global);
  void balance();
  void hand_out(std::span<const SampleId> global);
  const PartitionDirectory& m_directory;
  std::uint32_t m_self;
  BalanceFrom m_from;
  BatchParts m_parts;
  Balancer m_balancer;
  std::span<const Transfer> m_transfers;
  std::size_t m_batch = 0;
  std::uint32_t m_unheld = 0;
  std::vector<RankNumber> m_owners;            ///< by place in the batch
  std::vector<std::int32_t> m_imbalances;      ///< by rank
  std::vector<std::uint32_t> m_from_storage;   ///< by rank
  std::vector<std::uint32_t> m_kept;           ///< by rank: samples that it holds and trains
  std::vector<std::uint32_t> m_first, m_next;  ///< by rank the first transfer from it, by transfer the next from the same; m_transfers.size(): none
  std::vector<std::uint32_t> m_to_move;        ///< by transfer
};

}  // namespace dsanalyze
