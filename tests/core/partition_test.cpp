#include "core/partition/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "partition_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

/// Even primaries, every rank with room for so many 1/256ths of copies.
PartitionDirectory even_directory(std::uint64_t samples, std::uint32_t ranks, std::uint32_t copies, std::uint32_t depth) {
  std::vector<RankNumber> primaries(samples);
  for (std::uint64_t sample = 0; sample < samples; ++sample) primaries[sample] = static_cast<RankNumber>(sample % ranks);
  return {std::move(primaries), ranks, {copies, std::vector<std::uint32_t>(ranks, depth)}};
}

std::vector<std::uint32_t> holders_of(const PartitionDirectory& directory, SampleId sample) {
  std::vector<std::uint32_t> holders;
  for (std::uint32_t rank = 0; rank < directory.ranks(); ++rank) {
    if (directory.is_holder(rank, sample)) holders.push_back(rank);
  }
  return holders;
}

enum class FirstEpoch { dealt, sliced };

/// What caches of these capacities hold after the first epoch.
CachesOfRanks after_first_epoch(std::span<const IndexRecord> records, const std::vector<Bytes>& capacities, std::size_t batch, FirstEpoch how) {
  CachesOfRanks caches(records, capacities);
  const auto ranks = static_cast<std::uint32_t>(capacities.size());
  DealtAssignment dealt(records, capacities, 0);
  each_batch(records.size(), batch, 17, [&](std::span<const SampleId> global) {
    dealt.mine(global);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto part = how == FirstEpoch::dealt ? dealt.part(rank) : Assignment::slice(global, static_cast<int>(rank), static_cast<int>(ranks));
      for (const SampleId sample : part) caches.offer(rank, sample);
    }
  });
  return caches;
}

/// Free room of each rank once it has adopted; checks that what it adopts fits and is with it from then on.
std::vector<Bytes> room_after(const CachesOfRanks& caches, const MadeDirectory& made, std::span<const IndexRecord> records) {
  std::vector<Bytes> room = caches.free();
  for (std::uint32_t rank = 0; rank < room.size(); ++rank) {
    CHECK(std::ranges::is_sorted(made.adopted[rank]));
    for (const SampleId sample : made.adopted[rank]) {
      REQUIRE(records[sample].length <= room[rank]);
      CHECK(made.directory.primary(sample) == rank);
      room[rank] -= records[sample].length;
    }
  }
  return room;
}

std::vector<Bytes> equal_capacities(std::span<const IndexRecord> records, std::size_t ranks, double of_dataset) {
  std::vector<Bytes> capacities(ranks);
  std::ranges::fill(capacities, static_cast<Bytes>(of_dataset * static_cast<double>(bytes_of(records)) / static_cast<double>(ranks)));
  return capacities;
}

}  // namespace

TEST_CASE("ranks are alive until they are lost, and have their places among the living") {
  AliveRanks alive(5);
  CHECK(alive.count() == 5);
  alive.lose(1);
  alive.lose(1);
  alive.lose(77);
  CHECK(alive.count() == 4);
  CHECK(alive.alive(0));
  CHECK_FALSE(alive.alive(1));
  CHECK_FALSE(alive.alive(5));
  CHECK(alive.place(0) == 0);
  CHECK(alive.place(2) == 1);
  CHECK(alive.place(4) == 3);
  CHECK(AliveRanks(most_ranks).count() == most_ranks);
  CHECK_THROWS_AS(AliveRanks(0), Error);
  CHECK_THROWS_AS(AliveRanks(most_ranks + 1), Error);
}

TEST_CASE("copies lie as far apart as can be and never with the primary, for any number of ranks and copies") {
  for (std::uint32_t ranks = 1; ranks <= 40; ++ranks) {
    for (std::uint32_t copies = 1; copies <= ranks; ++copies) {
      const auto directory = even_directory(ranks, ranks, copies, 2 * most_ranks * ReplicaRule::steps);  // deeper than there are copies
      std::uint32_t nearest = ranks;
      bool as_many = true;
      for (SampleId sample = 0; sample < ranks; ++sample) {
        const auto holders = holders_of(directory, sample);
        as_many = as_many && holders.size() == copies && directory.copies(sample) == copies;
        for (std::size_t i = 0; i < holders.size() && copies > 1; ++i) {
          const std::uint32_t next = holders[(i + 1) % holders.size()];
          nearest = std::min(nearest, (next + ranks - holders[i]) % ranks);
        }
      }
      CAPTURE(ranks);
      CAPTURE(copies);
      CHECK(as_many);
      if (copies > 1) CHECK(nearest == ranks / copies);
    }
  }
}

TEST_CASE("a part of a copy goes to that part of the samples, spread evenly over ranks and over the samples' numbers") {
  constexpr std::uint32_t ranks = 16;
  constexpr std::uint64_t samples = 160'000;
  const auto directory = even_directory(samples, ranks, 3, ReplicaRule::steps * 3 / 2);  // one copy and a half beside the primary
  std::vector<double> by_rank(ranks);
  std::vector<double> by_place(16);
  std::vector<double> by_remainder(16);
  for (SampleId sample = 0; sample < samples; ++sample) {
    const std::uint32_t copies = directory.copies(sample);
    REQUIRE((copies == 2 || copies == 3));
    by_place[std::uint64_t{sample} * 16 / samples] += copies - 2;
    by_remainder[sample / 16 % 16] += copies - 2;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) by_rank[rank] += directory.is_holder(rank, sample) ? 1 : 0;
  }
  for (const double count : by_rank) CHECK(count == doctest::Approx(2.5 * samples / ranks).epsilon(0.03));
  for (const auto* counts : {&by_place, &by_remainder}) {
    for (const double count : *counts) CHECK(count == doctest::Approx(0.5 * samples / 16).epsilon(0.03));
  }
}

TEST_CASE("whom to ask: the primary, then each replica in its order, without oneself and the dead, whichever ranks are dead") {
  for (std::uint32_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::uint32_t copies = 1; copies <= std::min(ranks, 4U); ++copies) {
      const auto directory = even_directory(64, ranks, copies, (copies - 1) * ReplicaRule::steps - (copies > 1 ? ReplicaRule::steps / 2 : 0));
      bool right = true;
      for (std::uint32_t dead = 0; dead < 1U << ranks; ++dead) {
        AliveRanks alive(ranks);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          if ((dead >> rank & 1) != 0) alive.lose(rank);
        }
        for (SampleId sample = 0; sample < 64; sample += 5) {
          for (std::uint32_t self = 0; self < ranks; ++self) {
            std::vector<std::uint32_t> expected;
            for (std::uint32_t copy = 0; copy < copies; ++copy) {
              const std::uint32_t rank = (sample + copy * (ranks / copies)) % ranks;
              if (rank != self && alive.alive(rank) && directory.is_holder(rank, sample)) expected.push_back(rank);
            }
            for (std::uint32_t attempt = 0; attempt < expected.size(); ++attempt)
              right = right && directory.next_to_ask(sample, self, alive, attempt) == expected[attempt];
            right = right && !directory.next_to_ask(sample, self, alive, static_cast<std::uint32_t>(expected.size())).has_value();
          }
          const auto first = directory.next_to_ask(sample, no_rank, alive, 0);
          right = right && directory.first_alive(sample, alive) == first.value_or(no_rank);
        }
      }
      CAPTURE(ranks);
      CAPTURE(copies);
      CHECK(right);
    }
  }
}

TEST_CASE("what is held nowhere, or is no sample, has no holder and is asked of no rank") {
  const PartitionDirectory directory({0, no_rank, 1}, 2, {2, {512, 512}});
  for (const SampleId sample : {1U, 3U, UINT32_MAX}) {
    CHECK(directory.primary(sample) == no_rank);
    CHECK(directory.copies(sample) == 0);
    CHECK(holders_of(directory, sample).empty());
    CHECK_FALSE(directory.next_to_ask(sample, 0, AliveRanks(2), 0).has_value());
    CHECK(directory.first_alive(sample, AliveRanks(2)) == no_rank);
  }
  CHECK_FALSE(directory.is_holder(2, 0));
  CHECK_FALSE(directory.is_holder(no_rank, 1));
}

TEST_CASE("a directory of ranks that are not there is refused") {
  CHECK_THROWS_AS(PartitionDirectory({0, 2}, 2), Error);
  CHECK_THROWS_AS(PartitionDirectory({}, 0), Error);
  CHECK_THROWS_AS(PartitionDirectory({}, most_ranks + 1), Error);
  CHECK_THROWS_AS(PartitionDirectory({0}, 2, {3, {1, 1}}), Error);
  CHECK_THROWS_AS(PartitionDirectory({0}, 2, {0, {1, 1}}), Error);
  CHECK_THROWS_AS(PartitionDirectory({0}, 2, {2, {1, 1, 1}}), Error);
}

TEST_CASE("caches that hold the dataset together with 2 % to spare hold all of it, dealt or sliced in the first epoch") {
  for (const FirstEpoch how : {FirstEpoch::dealt, FirstEpoch::sliced}) {
    for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 16U, 64U}) {
      const auto records = log_normal_records(20'000, ranks);
      const auto caches = after_first_epoch(records, equal_capacities(records, ranks, 1.02), std::size_t{ranks} * 8, how);
      const MadeDirectory made = caches.make();
      CAPTURE(ranks);
      CHECK(made.nowhere == 0);
      CHECK(made.nowhere_bytes == 0);
      std::uint64_t adopted = 0;
      for (const auto& samples : made.adopted) adopted += samples.size();
      if (how == FirstEpoch::sliced && ranks >= 16) CHECK(adopted > 0);
      for (SampleId sample = 0; sample < records.size(); ++sample) REQUIRE(made.directory.primary(sample) < ranks);
      room_after(caches, made, records);
    }
  }
}

TEST_CASE("4,096 caches of 64 samples each and a tenth more hold all of the dataset") {
  const auto records = log_normal_records(std::size_t{most_ranks} * 64, 9);
  const auto caches = after_first_epoch(records, equal_capacities(records, most_ranks, 1.1), std::size_t{most_ranks} * 8, FirstEpoch::dealt);
  const MadeDirectory made = caches.make();
  CHECK(made.nowhere == 0);
  room_after(caches, made, records);
}

TEST_CASE("where the caches hold less than the dataset, what overflows is nowhere and no rank has room for any of it") {
  for (const double fits : {0.0, 0.3, 0.8, 0.98}) {
    for (const std::uint32_t ranks : {1U, 4U, 16U}) {
      const auto records = log_normal_records(5000, ranks);
      const auto caches = after_first_epoch(records, equal_capacities(records, ranks, fits), std::size_t{ranks} * 8, FirstEpoch::dealt);
      const MadeDirectory made = caches.make();
      const auto room = room_after(caches, made, records);
      Bytes smallest = UINT64_MAX;
      Bytes nowhere = 0;
      std::uint64_t count = 0;
      for (SampleId sample = 0; sample < records.size(); ++sample) {
        if (made.directory.primary(sample) != no_rank) continue;
        ++count;
        nowhere += records[sample].length;
        smallest = std::min(smallest, records[sample].length);
      }
      CAPTURE(fits);
      CAPTURE(ranks);
      CHECK(count == made.nowhere);
      CHECK(nowhere == made.nowhere_bytes);
      CHECK(smallest > *std::ranges::max_element(room));
      Bytes free = 0;
      for (const Bytes each : room) free += each;
      Bytes aggregate = 0;
      for (const Bytes each : caches.capacities()) aggregate += each;
      CHECK(nowhere == bytes_of(records) - aggregate + free);
      CHECK(static_cast<double>(free) < 0.002 * static_cast<double>(bytes_of(records)));
    }
  }
}

TEST_CASE("unequal caches, one of them empty, hold the dataset together as far as they reach") {
  const auto records = log_normal_records(6000, 21);
  const Bytes all = bytes_of(records);
  const std::vector<Bytes> capacities{all / 2, 0, all / 10, all / 10 * 3, all / 8};
  const auto caches = after_first_epoch(records, capacities, 160, FirstEpoch::dealt);
  const MadeDirectory made = caches.make();
  CHECK(made.nowhere == 0);
  room_after(caches, made, records);
  for (SampleId sample = 0; sample < records.size(); ++sample) REQUIRE(made.directory.primary(sample) != 1);
  CHECK(made.adopted[1].empty());
}

TEST_CASE("room to spare holds replicas: as many copies as the caches together hold the dataset, and each rank's fit its room") {
  for (const double fits : {1.5, 2.0, 2.75, 9.0}) {
    for (const std::uint32_t ranks : {2U, 4U, 7U}) {
      const auto records = log_normal_records(8000, ranks);
      const auto caches = after_first_epoch(records, equal_capacities(records, ranks, fits), std::size_t{ranks} * 8, FirstEpoch::dealt);
      const MadeDirectory made = caches.make();
      std::vector<Bytes> held(ranks);
      double copies = 0;
      for (SampleId sample = 0; sample < records.size(); ++sample) {
        const auto holders = holders_of(made.directory, sample);
        REQUIRE(holders.size() == made.directory.copies(sample));
        copies += static_cast<double>(holders.size());
        for (const std::uint32_t rank : holders) held[rank] += records[sample].length;
      }
      CAPTURE(fits);
      CAPTURE(ranks);
      CHECK(copies / static_cast<double>(records.size()) == doctest::Approx(std::min<double>(fits, ranks)).epsilon(0.02));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) CHECK(held[rank] <= caches.capacities()[rank]);
    }
  }
}

TEST_CASE("replicas go only to ranks that have room for them") {
  const auto records = log_normal_records(6000, 22);
  const Bytes all = bytes_of(records);
  const std::vector<Bytes> capacities{all, 0, all / 4, all};
  const MadeDirectory made = after_first_epoch(records, capacities, 160, FirstEpoch::dealt).make();
  std::vector<Bytes> held(4);
  for (SampleId sample = 0; sample < records.size(); ++sample) {
    for (const std::uint32_t rank : holders_of(made.directory, sample)) held[rank] += records[sample].length;
  }
  CHECK(held[1] == 0);
  for (std::size_t rank = 0; rank < 4; ++rank) CHECK(held[rank] <= capacities[rank]);
  CHECK(held[0] > all * 2 / 3);
}

TEST_CASE("what ranks adopt is no room for replicas any more") {
  const auto records = log_normal_records(4000, 23);
  const CachesOfRanks caches(records, equal_capacities(records, 4, 1.6));
  const MadeDirectory made = caches.make();
  CHECK(made.nowhere == 0);
  std::vector<Bytes> held(4);
  for (SampleId sample = 0; sample < records.size(); ++sample) {
    for (const std::uint32_t rank : holders_of(made.directory, sample)) held[rank] += records[sample].length;
  }
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(held[rank] <= caches.capacities()[rank]);
    CHECK(static_cast<double>(held[rank]) > 0.98 * static_cast<double>(caches.capacities()[rank]));
  }
}

TEST_CASE("the largest samples are adopted first, by the ranks with most room, and what is too large leaves the smaller their place") {
  const std::vector<IndexRecord> records{{0, 60, 0, 0}, {0, 100, 0, 0}, {0, 101, 0, 0}, {0, 5, 0, 0}};
  const MadeDirectory made = CachesOfRanks(records, {61, 100, 5}).make();
  CHECK(made.adopted == std::vector<std::vector<SampleId>>{{0}, {1}, {3}});
  CHECK(made.nowhere == 1);
  CHECK(made.nowhere_bytes == 101);
}

TEST_CASE("of several ranks that hold a sample the lowest is its primary, and bits beyond the last sample count for nothing") {
  const std::vector<IndexRecord> records(10, IndexRecord{0, 100, 0, 0});
  CachesOfRanks caches(records, {1000, 1000, 1000});
  caches.hold(2, 4);
  caches.hold(1, 4);
  caches.hold(1, 15);
  const MadeDirectory made = caches.make();
  CHECK(made.directory.primary(4) == 1);
  CHECK(made.nowhere == 0);
  for (const auto& samples : made.adopted) CHECK_FALSE(std::ranges::binary_search(samples, 4U));
}

TEST_CASE("tables that do not fit one another are refused") {
  const std::vector<IndexRecord> records(10, IndexRecord{0, 100, 0, 0});
  const std::vector<std::byte> bitmaps(4);
  const std::vector<Bytes> room{10, 10};
  const std::vector<Bytes> less{10, 9};
  const std::vector<Bytes> too_many(most_ranks + 1);
  CHECK(make_directory({bitmaps, room, room}, records).nowhere == 10);
  CHECK_THROWS_AS(make_directory({std::span(bitmaps).first(3), room, room}, records), Error);
  CHECK_THROWS_AS(make_directory({bitmaps, std::span(room).first(1), room}, records), Error);
  CHECK_THROWS_AS(make_directory({bitmaps, room, less}, records), Error);
  CHECK_THROWS_AS(make_directory({{}, {}, {}}, records), Error);
  CHECK_THROWS_AS(make_directory({{}, too_many, too_many}, {}), Error);
}
