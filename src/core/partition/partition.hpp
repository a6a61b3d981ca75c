#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/text/units.hpp"
#include "core/batch.hpp"
#include "core/index.hpp"
#include "peers.hpp"

namespace dsanalyze {

// Who holds what of a dataset that is partitioned over the caches of p ranks [CoorDL, section 4.2]. Pure; every rank computes the same.

/// A rank in a table; no_rank: none.
using RankNumber = std::uint16_t;
constexpr RankNumber no_rank = UINT16_MAX;
static_assert(most_ranks <= no_rank);

/// Which ranks of a job take part. A rank that was lost stays it. A value.
class AliveRanks {
 public:
  /// All of them. Throws Error for no ranks, or more than most_ranks.
  explicit AliveRanks(std::uint32_t ranks);
  [[nodiscard]] std::uint32_t ranks() const { return m_ranks; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(m_alive.count()); }
  /// False for a rank that is none.
  [[nodiscard]] bool alive(std::uint32_t rank) const { return rank < m_ranks && m_alive[rank]; }
  /// How many below this rank are alive: its place among the living.
  [[nodiscard]] std::uint32_t place(std::uint32_t rank) const;
  void lose(std::uint32_t rank);
  bool operator==(const AliveRanks&) const = default;

 private:
  std::uint32_t m_ranks;
  std::bitset<most_ranks> m_alive;
};

/// Where copies beyond the primary lie: copy k = 1, 2, ... of a sample with rank (primary + k x stride) mod p, so far as that rank has room for
/// copies. Room is said as a depth: the rank takes what is its to take of copies 1 to depth / steps, and of the next copy the samples whose number
/// hashes to one of the first depth % steps of `steps` parts. So replicas need no table, spread evenly over the samples, and fit each rank's memory.
struct ReplicaRule {
  static constexpr std::uint32_t steps = 256;
  std::uint32_t copies = 1;           ///< most of a sample, the primary among them; at most p
  std::vector<std::uint32_t> depths;  ///< by rank; empty: no replicas
};
/// floor(p / copies): the copies of a sample are that far apart on the ring of ranks, which is as far as can be, and none meets another. Requires
/// 1 <= copies <= ranks.
std::uint32_t replica_stride(std::uint32_t ranks, std::uint32_t copies);

/// Two bytes a sample. Immutable. Threads: any.
class PartitionDirectory {
 public:
  /// `primaries`: by sample, no_rank for one that is held nowhere. Throws Error for a primary that is no rank, and for a rule that does not fit the
  /// ranks.
  PartitionDirectory(std::vector<RankNumber> primaries, std::uint32_t ranks, ReplicaRule rule = {});

  [[nodiscard]] std::uint32_t ranks() const { return m_ranks; }
  [[nodiscard]] std::uint64_t samples() const { return m_primaries.size(); }
  /// no_rank: held nowhere, or no sample's number.
  [[nodiscard]] RankNumber primary(SampleId sample) const { return sample < m_primaries.size() ? m_primaries[sample] : no_rank; }
  /// The primary and the replicas that the rule gives; 0: held nowhere.
  [[nodiscard]] std::uint32_t copies(SampleId sample) const;
  /// Whether the rank holds the sample, or has room kept for it as a replica (which it takes when the sample passes by).
  [[nodiscard]] bool is_holder(std::uint32_t rank, SampleId sample) const;
  /// Whom `self` asks for a sample that it lacks, at its attempt 0, 1, ...: the primary, then the replicas in their order; the dead and itself left
  /// out. Nothing: storage.
  [[nodiscard]] std::optional<std::uint32_t> next_to_ask(SampleId sample, std::uint32_t self, const AliveRanks& alive, std::uint32_t attempt) const;
  /// The first holder that is alive, in the same order; no_rank: none.
  [[nodiscard]] RankNumber first_alive(SampleId sample, const AliveRanks& alive) const;

 private:
  [[nodiscard]] bool takes_copy(std::uint32_t rank, std::uint32_t copy, SampleId sample) const;
  [[nodiscard]] std::uint32_t rank_of_copy(RankNumber primary, std::uint32_t copy) const { return (primary + copy * m_stride) % m_ranks; }
  std::vector<RankNumber> m_primaries;
  std::uint32_t m_ranks;
  std::uint32_t m_stride;
  ReplicaRule m_rule;
};

/// Bytes of one rank's bitmap: sample s is bit s % 8 of byte s / 8.
constexpr std::size_t held_bitmap_bytes(std::uint64_t samples) { return static_cast<std::size_t>((samples + 7) / 8); }

/// What all ranks know at the end of the first epoch. A rank that was lost holds nothing and has no room.
struct HeldByRanks {
  std::span<const std::byte> bitmaps;  ///< ranks x held_bitmap_bytes(samples), in rank order, as Collective::gather() leaves them
  std::span<const Bytes> free;         ///< by rank: room that its cache has left
  std::span<const Bytes> capacities;   ///< by rank
};

struct MadeDirectory {
  PartitionDirectory directory;
  /// By rank, ascending: what it reads from storage once, before the next epoch, and holds from then on.
  std::vector<std::vector<SampleId>> adopted;
  std::uint64_t nowhere = 0;  ///< samples that storage serves in every epoch
  Bytes nowhere_bytes = 0;
};

/// The directory after the first epoch. Of several ranks that hold a sample the lowest is its primary. What no rank holds is adopted, the largest
/// first by the rank with most room; what is held nowhere then fits into no rank's room. Room that is left holds replicas: as many copies as the
/// caches together hold the dataset, rounded up, each rank as deep as its room goes. A record's length is what its sample takes of a cache. Throws
/// Error when the tables do not fit one another, or a rank has more room than its cache. Time: p D / 8 steps over the bitmaps, and O(U log U) for U
/// samples that no rank holds.
MadeDirectory make_directory(const HeldByRanks& held, std::span<const IndexRecord> records);

/// Which of the rule's parts a sample belongs to: evenly spread over the samples, whatever their numbers.
inline std::uint32_t replica_step(SampleId sample) {
  static_assert(ReplicaRule::steps == 256);
  return static_cast<std::uint32_t>(mix(sample, 0x7265706c696361) >> 56);
}

}  // namespace dsanalyze
