#include "core/order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

/// `files` shards of `each` samples.
std::vector<IndexRecord> sharded(std::uint32_t files, std::uint32_t each) {
  std::vector<IndexRecord> records(std::size_t{files} * each);
  for (std::uint32_t i = 0; i < records.size(); ++i) records[i].file = i / each;
  return records;
}

EpochOrder order_of(const OrderSpec& spec, const std::vector<IndexRecord>& records, std::uint64_t epoch = 0) {
  EpochOrder order;
  make_epoch_order(spec, 7, epoch, records, static_cast<std::uint32_t>(records.size()), order);
  return order;
}

std::vector<SampleId> sorted(std::vector<SampleId> ids) {
  std::ranges::sort(ids);
  return ids;
}

TEST_CASE("sequential without a buffer is the order of the files") {
  const auto records = sharded(4, 25);
  const EpochOrder order = order_of({OrderKind::sequential}, records);
  CHECK(std::ranges::is_sorted(order.training));
  CHECK(order.training.size() == 100);
  CHECK(order.storage.empty());
}

TEST_CASE("a shuffle buffer delays what storage reads by at most its length, and lets every sample out once") {
  const auto records = sharded(10, 30);
  for (const OrderKind kind : {OrderKind::sequential, OrderKind::shards}) {
    for (const std::uint32_t buffer : {2U, 17U, 299U, 1000U}) {
      const EpochOrder order = order_of({kind, buffer}, records);
      CHECK(sorted(order.training) == sorted(order.storage));
      CHECK(sorted(order.training).size() == 300);
      std::vector<std::size_t> read_at(300);
      for (std::size_t i = 0; i < order.storage.size(); ++i) read_at[order.storage[i]] = i;
      for (std::size_t p = 0; p < order.training.size(); ++p) REQUIRE(read_at[order.training[p]] < p + buffer);
      CHECK(order.training != order.storage);
    }
  }
}

TEST_CASE("shards are read whole, one after another, in another order each epoch") {
  const auto records = sharded(12, 9);
  std::set<std::vector<std::uint32_t>> seen;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const EpochOrder order = order_of({OrderKind::shards}, records, epoch);
    std::vector<std::uint32_t> shards;
    for (std::size_t i = 0; i < order.training.size(); ++i) {
      const SampleId id = order.training[i];
      if (i % 9 == 0) {
        shards.push_back(records[id].file);
        CHECK(id % 9 == 0);
      } else {
        CHECK(id == order.training[i - 1] + 1);
      }
    }
    seen.insert(shards);
    std::ranges::sort(shards);
    CHECK(std::ranges::adjacent_find(shards) == shards.end());
    CHECK(shards.size() == 12);
  }
  CHECK(seen.size() == 5);
}

TEST_CASE("nodes share an epoch's shards without gap or overlap, and readers those of their node in rotation [Parax, section 3.2.2]") {
  const auto records = sharded(13, 5);
  for (const std::uint32_t nodes : {1U, 3U, 4U}) {
    for (const std::uint32_t readers : {1U, 2U, 5U}) {
      std::vector<SampleId> all;
      for (std::uint32_t node = 0; node < nodes; ++node) {
        const EpochOrder order = order_of({OrderKind::shards, 0, node, nodes, readers}, records, 2);
        all.insert(all.end(), order.training.begin(), order.training.end());
        // While all readers have samples, no two neighbours in a turn are of one shard.
        const std::size_t turn = std::min<std::size_t>(readers, order.training.size() / 5);
        for (std::size_t i = 1; i < turn; ++i) CHECK(records[order.training[i]].file != records[order.training[i - 1]].file);
      }
      CHECK(all.size() == 65);
      all = sorted(all);
      CHECK(std::ranges::adjacent_find(all) == all.end());
    }
  }
}

TEST_CASE("shuffle quality: 1 for the order of the files, that of a permutation for a permutation, in between for buffers") {
  const auto records = sharded(100, 100);
  const auto quality = [&](const OrderSpec& spec) { return shuffle_quality(order_of(spec, records).training, records, 64); };
  const ShuffleQuality files = quality({OrderKind::sequential});
  CHECK(files.mean_displacement == 0);
  CHECK(files.rank_correlation == doctest::Approx(1));
  CHECK(files.neighbours == 1);
  CHECK(files.batch_files < 0.05);

  // For a uniform permutation of n: E|i - j| = (n^2 - 1) / 3n, and Spearman's coefficient has mean 0 and deviation 1 / sqrt(n - 1).
  const ShuffleQuality uniform = quality({});
  CHECK(uniform.mean_displacement == doctest::Approx(1).epsilon(0.03));
  CHECK(std::abs(uniform.rank_correlation) < 4 / std::sqrt(9999.0));
  CHECK(uniform.neighbours < 0.001);
  CHECK(uniform.batch_files == doctest::Approx(1).epsilon(0.03));

  // Of a sequence through a buffer of b, a sample waits b draws on average: mean displacement about b / (n / 3) while b is small.
  const ShuffleQuality buffered = quality({OrderKind::sequential, 200});
  CHECK(buffered.mean_displacement > 0);
  CHECK(buffered.mean_displacement < 3 * 200.0 / (10'000.0 / 3));
  CHECK(buffered.rank_correlation > 0.99);
  CHECK(buffered.neighbours < 0.05);

  const ShuffleQuality shards = quality({OrderKind::shards, 1000});
  CHECK(shards.mean_displacement > 0.7);
  CHECK(std::abs(shards.rank_correlation) < 0.5);
  CHECK(shards.batch_files < 0.5);
}

TEST_CASE("names of orders go there and back") {
  for (const OrderKind kind : {OrderKind::random, OrderKind::sequential, OrderKind::shards}) CHECK(parse_order_kind(order_kind_name(kind)) == kind);
  CHECK_THROWS_AS(parse_order_kind("shuffled"), UsageError);
}

}  // namespace
}  // namespace dsanalyze
