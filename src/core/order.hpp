#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "batch.hpp"
#include "index.hpp"

namespace dsanalyze {

enum class OrderKind {
  random,      ///< a uniform permutation of all samples
  sequential,  ///< the order of the files, through a shuffle buffer (DALI's sequential reader)
  shards       ///< shards in random order, samples of a shard one after another, through a shuffle buffer (WebDataset; [Parax] section 3.2.2)
};
constexpr std::array<const char*, 3> names_of(OrderKind /*type*/) { return {"random", "sequential", "shards"}; }
OrderKind parse_order_kind(const std::string& text);
std::string order_kind_name(OrderKind kind);

/// How an epoch's samples follow one another: with seed, epoch and the dataset's records, all that its order depends on.
struct OrderSpec {
  OrderKind kind = OrderKind::random;
  std::uint32_t shuffle_buffer = 0;  ///< samples; 0 or 1: none. Not of `random`
  /// `shards` only. Of an epoch's shuffled shards, node k of n takes every n-th from the k-th on (WebDataset's nodesplitter), and of these, reader j
  /// of m every m-th from the j-th on (workersplitter): each shard has one reader. A node's readers take turns, a sample each.
  std::uint32_t node = 0, nodes = 1;
  std::uint32_t readers = 1;

  bool operator==(const OrderSpec&) const = default;
  [[nodiscard]] bool buffers() const { return kind != OrderKind::random && shuffle_buffer > 1; }
};

/// One epoch's order. What storage is asked for runs ahead of what training sees by at most the shuffle buffer: the sample at training[p] is one of
/// storage[0 .. p + shuffle_buffer).
struct EpochOrder {
  std::vector<SampleId> training;
  std::vector<SampleId> storage;  ///< empty when it is the same
};
/// A pure function of its arguments: each sample (of the node's shards) exactly once. A shard is a file of the index. `records` are not looked at for
/// `random`, only `samples` is. Threads: any.
void make_epoch_order(const OrderSpec& spec, std::uint64_t seed, std::uint64_t epoch, std::span<const IndexRecord> records, std::uint32_t samples,
                      EpochOrder& order);

/// How well an order is shuffled, against the order of the files.
struct ShuffleQuality {
  double mean_displacement = 0;  ///< how far a sample moves, as a share of what a uniform permutation moves it (a third of the epoch): 0 to about 1
  double rank_correlation = 0;   ///< Spearman's, with the order of the files: 1 in file order, about 0 in random order
  double neighbours = 0;         ///< share of the samples that are followed by their successor in the files: 1 in file order, about 0 in random order
  double batch_files = 0;        ///< mean number of files that a batch's samples come from, as a share of what a uniform permutation gives
};
ShuffleQuality shuffle_quality(std::span<const SampleId> training, std::span<const IndexRecord> records, std::uint32_t batch_size);

}  // namespace dsanalyze
