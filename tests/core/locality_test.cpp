#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "core/partition/assignment.hpp"
#include "core/partition/data_parallel.hpp"
#include "partition_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

/// Of every ten samples that many are held.
PartitionDirectory evenly_parted(std::uint64_t samples, std::uint32_t ranks, std::uint64_t held_of_ten = 10) {
  std::vector<RankNumber> primaries(samples, no_rank);
  std::uint64_t held = 0;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (sample % 10 < held_of_ten) primaries[sample] = static_cast<RankNumber>(held++ % ranks);
  }
  return {std::move(primaries), ranks};
}

/// Ranks that hold more and less, and holes; copies for some.
PartitionDirectory unevenly_parted(std::uint64_t samples, std::uint32_t ranks, RandomStream& random) {
  std::vector<double> weights(ranks + 1);
  for (double& weight : weights) weight = random.below(4) == 0 ? 0 : random.uniform();
  weights.back() = random.below(2) == 0 ? 0 : random.uniform();  // nowhere
  const double sum = std::accumulate(weights.begin(), weights.end(), 1e-9);
  std::vector<RankNumber> primaries(samples, no_rank);
  for (RankNumber& primary : primaries) {
    double left = random.uniform() * sum;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      left -= weights[rank];
      if (left >= 0) continue;
      primary = static_cast<RankNumber>(rank);
      break;
    }
  }
  ReplicaRule rule;
  rule.copies = static_cast<std::uint32_t>(1 + random.below(ranks));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) rule.depths.push_back(static_cast<std::uint32_t>(random.below(1000)));
  return {std::move(primaries), ranks, std::move(rule)};
}

struct Counts {
  std::vector<std::uint32_t> own, peers, storage;  ///< by rank
};

Counts count_sources(const LocalityAssignment& locality, std::uint32_t ranks) {
  Counts counts{std::vector<std::uint32_t>(ranks), std::vector<std::uint32_t>(ranks), std::vector<std::uint32_t>(ranks)};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (const RankNumber source : locality.sources(rank)) ++(source == rank ? counts.own : source == no_rank ? counts.storage : counts.peers)[rank];
  }
  return counts;
}

double mean_traffic(std::uint32_t ranks, std::uint32_t local_batch, std::uint64_t samples, int epochs, std::uint64_t held_of_ten = 10) {
  const PartitionDirectory directory = evenly_parted(samples, ranks, held_of_ten);
  LocalityAssignment locality(directory, 0);
  double sum = 0;
  int batches = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    each_batch(samples, std::size_t{ranks} * local_batch, static_cast<std::uint64_t>(epoch), [&](std::span<const SampleId> batch) {
      if (batch.size() < std::size_t{ranks} * local_batch) return;
      locality.mine(batch);
      sum += locality.balance_traffic();
      ++batches;
    });
  }
  return sum / batches;
}

}  // namespace

TEST_CASE("locality gives every sample once, in the sizes of slices, each from where it lies: for any ranks, batches, holes and dead ranks") {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    RandomStream random(seed);
    const auto ranks = static_cast<std::uint32_t>(1 + random.below(40));
    const std::size_t samples = 1 + random.below(3000);
    const PartitionDirectory directory = unevenly_parted(samples, ranks, random);
    AliveRanks alive(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (alive.count() > 1 && random.below(5) == 0) alive.lose(rank);
    }
    const auto self = static_cast<std::uint32_t>(random.below(ranks));
    LocalityAssignment locality(directory, self);
    locality.reset(alive);
    bool exact = true, sources_right = true, traffic_right = true, storage_even = true;
    each_batch(samples, 1 + random.below(400), seed, [&](std::span<const SampleId> batch) {
      const auto mine = locality.mine(batch);
      exact = exact && parts_are_exact(locality, batch, alive) && std::ranges::equal(mine, locality.part(self)) &&
              std::ranges::equal(locality.sources(), locality.sources(self));
      const Counts counts = count_sources(locality, ranks);
      std::vector<std::uint32_t> sent(std::size_t{ranks} * ranks);
      std::uint32_t moved = 0, unheld = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < locality.part(rank).size(); ++i) {
          const RankNumber source = locality.sources(rank)[i];
          sources_right = sources_right && source == directory.first_alive(locality.part(rank)[i], alive);
          if (source != no_rank && source != rank) ++sent[source * ranks + rank];
        }
        moved += counts.peers[rank];
        unheld += counts.storage[rank];
      }
      std::uint32_t promised = 0;
      for (const Transfer& transfer : locality.transfers()) {
        promised += transfer.count;
        traffic_right = traffic_right && sent[transfer.from * ranks + transfer.to] == transfer.count;
      }
      traffic_right = traffic_right && promised == moved && locality.transfers().size() < ranks && unheld == locality.unheld() &&
                      locality.balance_traffic() == doctest::Approx(static_cast<double>(moved) / static_cast<double>(batch.size()));
      // A rank that reads less from storage than another by more than one lacks nothing besides.
      const std::uint32_t most = *std::ranges::max_element(counts.storage);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) storage_even = storage_even && (counts.storage[rank] + 1 >= most || counts.peers[rank] == 0);
    });
    CAPTURE(seed);
    CHECK(exact);
    CHECK(sources_right);
    CHECK(traffic_right);
    CHECK(storage_even);
  }
}

TEST_CASE("the example of the paper: 12 samples, Red holds 2, Green 6, Blue 4, and Green's last two move to Red") {
  const PartitionDirectory directory({1, 0, 1, 2, 1, 2, 0, 1, 2, 1, 2, 1}, 3);
  std::vector<SampleId> batch(12);
  std::iota(batch.begin(), batch.end(), 0U);
  LocalityAssignment red(directory, 0);
  const auto mine = red.mine(batch);
  CHECK(std::ranges::equal(mine, std::vector<SampleId>{1, 6, 9, 11}));
  CHECK(std::ranges::equal(red.sources(), std::vector<RankNumber>{0, 0, 1, 1}));
  CHECK(red.balance_traffic() == doctest::Approx(2.0 / 12));
  CHECK(std::ranges::equal(red.part(1), std::vector<SampleId>{0, 2, 4, 7}));
  CHECK(std::ranges::equal(red.part(2), std::vector<SampleId>{3, 5, 8, 10}));
}

TEST_CASE("every rank computes the same, also after other batches") {
  RandomStream random(5);
  const PartitionDirectory directory = unevenly_parted(2000, 6, random);
  LocalityAssignment fresh(directory, 2);
  LocalityAssignment used(directory, 4);
  each_batch(2000, 333, 1, [&](std::span<const SampleId> batch) { used.mine(batch); });
  each_batch(2000, 150, 2, [&](std::span<const SampleId> batch) {
    fresh.mine(batch);
    used.mine(batch);
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      CHECK(std::ranges::equal(fresh.part(rank), used.part(rank)));
      CHECK(std::ranges::equal(fresh.sources(rank), used.sources(rank)));
    }
  });
}

TEST_CASE("the traffic that balances batches is what the closed form says, within 0.3 points, at 16 to 4,096 ranks") {
  struct Case {
    std::uint32_t ranks;
    int epochs;
  };
  for (const std::uint32_t local_batch : {32U, 64U, 128U}) {
    for (const Case& each : {Case{16, 8}, Case{64, 2}, Case{256, 1}, Case{4096, 1}}) {
      const std::uint32_t ranks = each.ranks;
      const std::uint64_t samples = std::uint64_t{ranks} * local_batch * (ranks == 4096 ? 3 : 20);
      const double expected = mean_balance_traffic(ranks, local_batch, static_cast<double>(samples), 1);
      CAPTURE(ranks);
      CAPTURE(local_batch);
      CHECK(std::abs(mean_traffic(ranks, local_batch, samples, each.epochs) - expected) < 0.003);
    }
  }
}

TEST_CASE("the paper's figures: 6.9, 4.8 and 3.4 % of a batch move for local batches of 32, 64 and 128") {
  CHECK(std::abs(mean_traffic(64, 32, 204'800, 1) - 0.069) < 0.003);
  CHECK(std::abs(mean_traffic(64, 64, 245'760, 1) - 0.048) < 0.003);
  CHECK(std::abs(mean_traffic(64, 128, 327'680, 1) - 0.034) < 0.003);
}

TEST_CASE("where not all is held, less has to move, as the closed form says") {
  for (const std::uint64_t held_of_ten : {9U, 8U, 5U}) {
    for (const std::uint32_t local_batch : {16U, 64U}) {
      for (const std::uint32_t ranks : {4U, 64U}) {
        CAPTURE(held_of_ten);
        CAPTURE(local_batch);
        CAPTURE(ranks);
        const std::uint64_t samples = std::uint64_t{ranks} * local_batch * 30;
        const double expected = mean_balance_traffic(ranks, local_batch, static_cast<double>(samples), static_cast<double>(held_of_ten) / 10);
        CHECK(std::abs(mean_traffic(ranks, local_batch, samples, ranks == 4 ? 16 : 2, held_of_ten) - expected) < 0.003);
      }
    }
  }
}

TEST_CASE("batches can be balanced from storage instead of from peers: the same parts, and no peer is asked") {
  const PartitionDirectory directory = evenly_parted(4000, 8);
  LocalityAssignment from_peers(directory, 0);
  LocalityAssignment from_storage(directory, 0, BalanceFrom::storage);
  each_batch(4000, 256, 3, [&](std::span<const SampleId> batch) {
    from_peers.mine(batch);
    from_storage.mine(batch);
    CHECK(from_storage.balance_traffic() == from_peers.balance_traffic());
    const Counts peers = count_sources(from_peers, 8);
    const Counts storage = count_sources(from_storage, 8);
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      CHECK(std::ranges::equal(from_peers.part(rank), from_storage.part(rank)));
      CHECK(storage.peers[rank] == 0);
      CHECK(storage.storage[rank] == peers.peers[rank]);
    }
  });
}

TEST_CASE("what no rank holds is read evenly by ranks that hold alike, over an epoch, be it many of a batch or few") {
  constexpr std::uint32_t ranks = 8;
  struct Case {
    std::size_t nowhere_every, batch;
    double within;
  };
  for (const auto& [every, batch_size, within] : {Case{5, 512, 0.05}, Case{20, 64, 0.3}}) {
    std::vector<RankNumber> primaries(20'000);
    for (std::size_t i = 0; i < primaries.size(); ++i) primaries[i] = i % every == 0 ? no_rank : static_cast<RankNumber>((i - i / every) % ranks);
    const PartitionDirectory directory(primaries, ranks);
    LocalityAssignment locality(directory, 0);
    std::vector<double> reads(ranks);
    double all = 0;
    each_batch(primaries.size(), batch_size, 4, [&](std::span<const SampleId> batch) {
      locality.mine(batch);
      const Counts counts = count_sources(locality, ranks);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) reads[rank] += counts.storage[rank];
      all += locality.unheld();
    });
    for (const double each : reads) CHECK(each == doctest::Approx(all / ranks).epsilon(within));
    CHECK(all == static_cast<double>(std::ranges::count(primaries, no_rank)));
  }
}

TEST_CASE("slices, dealt parts and parts by locality are of the same set") {
  const auto records = log_normal_records(1000, 6);
  const PartitionDirectory directory = evenly_parted(1000, 5);
  DealtAssignment dealt(records, std::vector<Bytes>(5, 1'000'000), 1);
  LocalityAssignment locality(directory, 1);
  each_batch(1000, 64, 6, [&](std::span<const SampleId> batch) {
    dealt.mine(batch);
    locality.mine(batch);
    CHECK(parts_are_exact(dealt, batch, AliveRanks(5)));
    CHECK(parts_are_exact(locality, batch, AliveRanks(5)));
  });
}

TEST_CASE("ranks that take part can change between epochs; other numbers of ranks are refused") {
  const PartitionDirectory directory = evenly_parted(300, 3);
  const std::vector<SampleId> batch = shuffled_ids(300, 7);
  CHECK_THROWS_AS(LocalityAssignment(directory, 3), Error);
  LocalityAssignment locality(directory, 1);
  CHECK_THROWS_AS(locality.reset(AliveRanks(4)), Error);
  CHECK(locality.mine(batch).size() == 100);
  CHECK(locality.unheld() == 0);
  AliveRanks alive(3);
  alive.lose(0);
  locality.reset(alive);
  CHECK(locality.mine(batch).size() == 150);
  CHECK(locality.unheld() == 100);
  CHECK(locality.part(0).empty());
  alive.lose(1);
  locality.reset(alive);
  CHECK(locality.mine(batch).empty());
  CHECK(locality.part(2).size() == 300);
  alive.lose(2);
  locality.reset(alive);
  CHECK(locality.mine(batch).empty());
  CHECK(locality.balance_traffic() == 0);
  CHECK(locality.unheld() == 0);
}

TEST_CASE("an empty batch and one smaller than there are ranks are split too") {
  const PartitionDirectory directory = evenly_parted(100, 10);
  LocalityAssignment locality(directory, 0);
  CHECK(locality.mine({}).empty());
  CHECK(locality.balance_traffic() == 0);
  const std::vector<SampleId> batch{5, 15, 25};
  CHECK(locality.mine(batch).size() == 1);
  CHECK(parts_are_exact(locality, batch, AliveRanks(10)));
}
