#include "loaders/partition/partitioned_share.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "ranks_rig.hpp"

namespace dsanalyze {
namespace {

using testing::emulated_dataset;
using testing::RanksRig;
using Results = std::vector<RanksRig::Result>;

constexpr std::uint32_t dataset_samples = 90;
constexpr Bytes of_a_sample = 1000;

std::shared_ptr<const DatasetIndex> even_dataset() { return emulated_dataset(dataset_samples, of_a_sample); }

/// All samples of an epoch over all ranks that saw it, and whether none came twice.
std::set<SampleId> trained(const Results& results, std::size_t epoch) {
  std::set<SampleId> all;
  std::size_t count = 0;
  for (const auto& result : results) {
    if (result.seen.epochs.size() <= epoch) continue;
    const auto& ids = result.seen.epochs[epoch];
    count += ids.size();
    all.insert(ids.begin(), ids.end());
  }
  CHECK(count == all.size());
  return all;
}

Bytes requested(const Results& results, std::size_t epoch) {
  return std::accumulate(results.begin(), results.end(), Bytes{0},
                         [epoch](Bytes sum, const RanksRig::Result& result) { return sum + result.epochs.at(epoch).requested; });
}

std::uint64_t peer_hits(const Results& results, std::size_t epoch) {
  return std::accumulate(results.begin(), results.end(), std::uint64_t{0},
                         [epoch](std::uint64_t sum, const RanksRig::Result& result) { return sum + result.epochs.at(epoch).peer_hits; });
}

}  // namespace

TEST_CASE("caches that together hold the dataset read it once, however often ranks train on all of it") {
  for (const PartitionMode mode : {PartitionMode::partitioned, PartitionMode::locality}) {
    CAPTURE(partition_mode_name(mode));
    RanksRig rig({.index = even_dataset(), .capacities = {30'000, 30'000, 30'000}, .mode = mode});
    const Results results = rig.run();
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      CAPTURE(epoch);
      CHECK(trained(results, epoch).size() == dataset_samples);
      CHECK(requested(results, epoch) == (epoch == 0 ? dataset_samples * of_a_sample : 0));
      for (const auto& result : results) CHECK(result.epochs[epoch].samples == 30);
    }
    CHECK(peer_hits(results, 0) == 0);
    CHECK(peer_hits(results, 1) > 0);
    for (const auto& result : results) CHECK(result.redirected == 0);
    if (mode == PartitionMode::locality) {
      CHECK(peer_hits(results, 1) < 30);  // a random third of each batch lies anywhere; with slices two thirds of all would move
      CHECK(results[0].account.balance_traffic > 0);
    } else {
      CHECK(peer_hits(results, 1) > 45);
    }
  }
}

TEST_CASE("without a partition every server reads what its own cache lacks, in every epoch") {
  RanksRig rig({.index = even_dataset(), .capacities = {30'000, 30'000, 30'000}, .mode = PartitionMode::none});
  const Results results = rig.run();
  for (std::size_t epoch = 0; epoch < 3; ++epoch) CHECK(trained(results, epoch).size() == dataset_samples);
  CHECK(requested(results, 1) > 0);
  CHECK(peer_hits(results, 1) == 0);
}

TEST_CASE("what no cache has room for is read from storage in every epoch, and nothing else is") {
  RanksRig rig({.index = even_dataset(), .capacities = {20'000, 20'000, 20'000}});
  const Results results = rig.run();
  CHECK(results[0].account.nowhere_samples == 30);
  for (std::size_t epoch = 1; epoch < 3; ++epoch) {
    CHECK(trained(results, epoch).size() == dataset_samples);
    CHECK(requested(results, epoch) == 30 * of_a_sample);
  }
}

TEST_CASE("a server without memory is made up for by one with more: what it dealt to itself is adopted") {
  RanksRig rig({.index = even_dataset(), .capacities = {0, 45'000, 45'000}});
  const Results results = rig.run();
  CHECK(results[0].account.adopted_samples == 0);
  CHECK(results[1].account.adopted_samples + results[2].account.adopted_samples == 30);
  // Adopting belongs to the first epoch: those samples were read twice in it, and never again.
  CHECK(requested(results, 0) == (dataset_samples + 30) * of_a_sample);
  CHECK(requested(results, 1) == 0);
  CHECK(requested(results, 2) == 0);
}

TEST_CASE("memory to spare fills with replicas as samples pass by, and fewer of them move") {
  RanksRig rig({.index = even_dataset(), .capacities = {90'000, 90'000, 90'000}, .epochs = 12});
  const Results results = rig.run();
  for (std::size_t epoch = 1; epoch < 12; ++epoch) CHECK(requested(results, epoch) == 0);
  CHECK(peer_hits(results, 11) < peer_hits(results, 1) / 4);
}

TEST_CASE("balancing from storage moves nothing between servers") {
  RanksRig rig({.index = even_dataset(), .capacities = {30'000, 30'000, 30'000}, .mode = PartitionMode::locality, .balance = BalanceFrom::storage});
  const Results results = rig.run();
  CHECK(trained(results, 1).size() == dataset_samples);
  CHECK(peer_hits(results, 1) == 0);
  CHECK(requested(results, 1) > 0);
}

TEST_CASE("a rank that dies costs its share of that epoch, which is named; the others train on all the rest, and then on everything") {
  for (const PartitionMode mode : {PartitionMode::partitioned, PartitionMode::locality}) {
    for (const std::uint64_t after : {3, 10, 12, 27}) {  // in the first epoch (8 batches), in the second, in the last
      CAPTURE(partition_mode_name(mode));
      CAPTURE(after);
      RanksRig rig({.index = even_dataset(), .capacities = {45'000, 45'000, 45'000}, .mode = mode, .epochs = 4});
      Results results = rig.run(1, after);
      results.erase(results.begin() + 1);
      const auto& lost = results[0].account.lost;
      REQUIRE(lost.size() == 1);
      CHECK(lost[0].rank == 1);
      CHECK(results[1].account.lost.at(0).share == lost[0].share);
      // It had fed batches ahead when it died, perhaps of the epoch after the one that it was training on.
      CHECK(lost[0].epoch >= after / 8);
      CHECK(lost[0].epoch <= after / 8 + 1);
      CHECK(lost[0].share.size() == 30);
      for (std::size_t epoch = 0; epoch < 4; ++epoch) {
        CAPTURE(epoch);
        std::set<SampleId> all = trained(results, epoch);
        if (epoch < lost[0].epoch) {
          CHECK(all.size() == 60);
        } else if (epoch == lost[0].epoch) {
          CHECK(all.size() == 60);
          all.insert(lost[0].share.begin(), lost[0].share.end());
          CHECK(all.size() == dataset_samples);
        } else {
          CHECK(all.size() == dataset_samples);
        }
      }
    }
  }
}

}  // namespace dsanalyze
