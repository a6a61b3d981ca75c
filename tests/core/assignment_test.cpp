#include "core/partition/assignment.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "partition_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("slices of a global batch are disjoint, complete and differ by at most one sample") {
  std::vector<SampleId> ids(29);
  std::iota(ids.begin(), ids.end(), 0U);
  std::vector<SampleId> joined;
  for (int rank = 0; rank < 8; ++rank) {
    const auto slice = Assignment::slice(ids, rank, 8);
    CHECK((slice.size() == 3 || slice.size() == 4));
    joined.insert(joined.end(), slice.begin(), slice.end());
  }
  CHECK(joined == ids);
}

TEST_CASE("dealt parts have the sizes of slices and every sample once, for any ranks, batches, capacities and dead ranks") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomStream random(seed);
    const auto ranks = static_cast<std::uint32_t>(1 + random.below(40));
    const std::size_t samples = 1 + random.below(3000);
    const auto records = log_normal_records(samples, seed);
    std::vector<Bytes> capacities(ranks);
    for (Bytes& capacity : capacities) capacity = random.below(3) == 0 ? 0 : random.below(2 * bytes_of(records) / ranks + 1);
    AliveRanks alive(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (alive.count() > 1 && random.below(5) == 0) alive.lose(rank);
    }
    DealtAssignment dealt(records, capacities, static_cast<std::uint32_t>(random.below(ranks)));
    dealt.reset(alive);
    bool exact = true;
    each_batch(samples, 1 + random.below(200), seed, [&](std::span<const SampleId> batch) {
      dealt.mine(batch);
      exact = exact && parts_are_exact(dealt, batch, alive);
    });
    CAPTURE(seed);
    CHECK(exact);
  }
}

TEST_CASE("every rank deals alike, counts the room that caches of this order have, and begins anew when it is told to") {
  const auto records = log_normal_records(2000, 1);
  const std::vector<Bytes> capacities{40'000'000, 20'000'000, 0, 60'000'000};
  DealtAssignment first(records, capacities, 0);
  DealtAssignment other(records, capacities, 3);
  for (int round = 0; round < 2; ++round) {
    CachesOfRanks caches(records, capacities);
    each_batch(2000, 64, 1, [&](std::span<const SampleId> batch) {
      const auto of_first = first.mine(batch);
      const auto of_other = other.mine(batch);
      CHECK(std::ranges::equal(of_first, first.part(0)));
      CHECK(std::ranges::equal(of_other, first.part(3)));
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        for (const SampleId sample : first.part(rank)) caches.offer(rank, sample);
      }
    });
    for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(first.room(rank) == caches.free()[rank]);
    first.reset(AliveRanks(4));
    other.reset(AliveRanks(4));
    CHECK(first.room(0) == capacities[0]);
  }
}

TEST_CASE("a dealt part keeps the order of the batch") {
  const auto records = log_normal_records(300, 2);
  DealtAssignment dealt(records, std::vector<Bytes>(3, 1'000'000'000), 1);
  const std::vector<SampleId> batch = shuffled_ids(300, 2);
  std::vector<std::size_t> places;
  for (const SampleId sample : dealt.mine(batch)) places.push_back(static_cast<std::size_t>(std::ranges::find(batch, sample) - batch.begin()));
  CHECK(places.size() == 100);
  CHECK(std::ranges::is_sorted(places));
}

TEST_CASE("dealt bytes follow the room: caches of one size fill alike, where slices of the same batches differ by far more") {
  constexpr std::uint32_t ranks = 8;
  const auto records = log_normal_records(8000, 3);
  const Bytes each = bytes_of(records) / ranks * 2;
  DealtAssignment dealt(records, std::vector<Bytes>(ranks, each), 0);
  std::vector<double> sliced(ranks);
  each_batch(8000, 256, 3, [&](std::span<const SampleId> batch) {
    dealt.mine(batch);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (const SampleId sample : Assignment::slice(batch, static_cast<int>(rank), ranks))
        sliced[rank] += static_cast<double>(records[sample].length);
    }
  });
  std::vector<double> filled;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) filled.push_back(static_cast<double>(each - dealt.room(rank)));
  const auto spread = [](const std::vector<double>& bytes) { return *std::ranges::max_element(bytes) - *std::ranges::min_element(bytes); };
  CHECK(spread(filled) < 110e3);
  CHECK(spread(sliced) > 20 * spread(filled));
}

TEST_CASE("a rank with more room is dealt the larger samples, one without the smaller") {
  const auto records = log_normal_records(3000, 4);
  const Bytes third = bytes_of(records) / 3;
  DealtAssignment dealt(records, std::vector<Bytes>{third * 2, third, 0}, 0);
  std::vector<Bytes> bytes(3);
  each_batch(3000, 96, 4, [&](std::span<const SampleId> batch) {
    dealt.mine(batch);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      for (const SampleId sample : dealt.part(rank)) bytes[rank] += records[sample].length;
    }
  });
  CHECK(bytes[0] > bytes[1]);
  CHECK(bytes[1] > bytes[2]);
  CHECK(bytes[0] > third * 5 / 4);
  CHECK(bytes[2] < third * 3 / 4);
}

TEST_CASE("of one sample for each rank the largest goes to the rank with most room, from one byte to 4 GiB") {
  constexpr std::uint32_t ranks = 300;
  RandomStream random(6);
  std::vector<IndexRecord> records(ranks);
  for (IndexRecord& record : records) record.length = static_cast<std::uint64_t>(std::exp2(random.uniform(0, 32)));
  std::vector<Bytes> capacities(ranks);
  for (Bytes& capacity : capacities) capacity = random.below(Bytes{1} << 48);
  DealtAssignment dealt(records, capacities, 0);
  dealt.mine(shuffled_ids(ranks, 6));
  std::vector<std::uint32_t> by_room(ranks);
  std::iota(by_room.begin(), by_room.end(), 0U);
  std::ranges::sort(by_room, [&](std::uint32_t a, std::uint32_t b) { return capacities[a] > capacities[b]; });
  std::vector<Bytes> lengths(ranks);
  std::ranges::transform(by_room, lengths.begin(), [&](std::uint32_t rank) { return records[dealt.part(rank).front()].length; });
  CHECK(std::ranges::is_sorted(lengths, std::ranges::greater()));
}

TEST_CASE("dealing to ranks that are not there is refused, and to none alive gives nothing") {
  const auto records = log_normal_records(10, 5);
  const std::vector<Bytes> capacities(3, 1000);
  CHECK_THROWS_AS(DealtAssignment(records, {}, 0), Error);
  CHECK_THROWS_AS(DealtAssignment(records, capacities, 3), Error);
  DealtAssignment dealt(records, capacities, 0);
  CHECK_THROWS_AS(dealt.reset(AliveRanks(4)), Error);
  AliveRanks none(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) none.lose(rank);
  dealt.reset(none);
  CHECK(dealt.mine(shuffled_ids(10, 5)).empty());
}
