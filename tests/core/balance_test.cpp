#include "core/partition/balance.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/random.hpp"

using namespace dsanalyze;

namespace {

std::vector<std::int32_t> random_imbalances(std::size_t ranks, std::uint64_t most, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::int32_t> imbalances(ranks);
  for (std::size_t i = 0; i < ranks * most; ++i) {
    ++imbalances[random.below(ranks)];
    --imbalances[random.below(ranks)];
  }
  return imbalances;
}

std::size_t out_of_balance(const std::vector<std::int32_t>& imbalances) {
  return imbalances.size() - static_cast<std::size_t>(std::ranges::count(imbalances, 0));
}

/// The fewest messages: each group of ranks whose imbalances add up to 0, and that has no such group within, needs one less than it has ranks.
std::size_t fewest_messages(const std::vector<std::int32_t>& imbalances) {
  std::vector<std::int32_t> nonzero;
  std::ranges::copy_if(imbalances, std::back_inserter(nonzero), [](std::int32_t each) { return each != 0; });
  const std::size_t subsets = std::size_t{1} << nonzero.size();
  std::vector<std::size_t> groups(subsets);
  for (std::size_t subset = 1; subset < subsets; ++subset) {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < nonzero.size(); ++i) {
      if ((subset >> i & 1) == 0) continue;
      sum += nonzero[i];
      groups[subset] = std::max(groups[subset], groups[subset & ~(std::size_t{1} << i)]);
    }
    if (sum == 0) ++groups[subset];
  }
  return nonzero.size() - groups.back();
}

}  // namespace

TEST_CASE("the example of the paper: Green has two samples too many, Red lacks two") {
  Balancer balancer;
  const auto transfers = balancer.balance(std::vector<std::int32_t>{-2, 2, 0});
  REQUIRE(transfers.size() == 1);
  CHECK(transfers[0] == Transfer{1, 0, 2});
}

TEST_CASE("the largest surplus goes to the largest deficit, and of equal ones the lower rank is first") {
  Balancer balancer;
  const auto transfers = balancer.balance(std::vector<std::int32_t>{-3, 5, -3, 5, -4});
  const std::vector<Transfer> expected{{1, 4, 4}, {3, 0, 3}, {3, 2, 2}, {1, 2, 1}};
  CHECK(std::ranges::equal(transfers, expected));
}

TEST_CASE("all is balanced by at most one message fewer than there are ranks out of balance") {
  Balancer balancer;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::size_t ranks = seed < 290 ? 1 + mix(seed) % 64 : 4096;
    std::vector<std::int32_t> imbalances = random_imbalances(ranks, 1 + mix(seed, 1) % 20, seed);
    const std::size_t unequal = out_of_balance(imbalances);
    const auto transfers = balancer.balance(imbalances);
    CAPTURE(seed);
    CHECK(transfers.size() <= (unequal == 0 ? 0 : unequal - 1));
    for (const Transfer& transfer : transfers) {
      CHECK(transfer.count > 0);
      CHECK(imbalances[transfer.from] >= static_cast<std::int32_t>(transfer.count));
      CHECK(-imbalances[transfer.to] >= static_cast<std::int32_t>(transfer.count));
      imbalances[transfer.from] -= static_cast<std::int32_t>(transfer.count);
      imbalances[transfer.to] += static_cast<std::int32_t>(transfer.count);
    }
    CHECK(out_of_balance(imbalances) == 0);
  }
}

TEST_CASE("messages are at most twice the fewest that would do, and for many small cases the fewest") {
  Balancer balancer;
  std::size_t exact = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto imbalances = random_imbalances(2 + mix(seed) % 9, 4, seed);
    const std::size_t fewest = fewest_messages(imbalances);
    const std::size_t sent = balancer.balance(imbalances).size();
    CAPTURE(seed);
    CHECK(sent <= 2 * fewest);
    CHECK(sent >= fewest);
    exact += sent == fewest ? 1 : 0;
  }
  CHECK(exact > 200);
}

TEST_CASE("what has no counterpart stays") {
  Balancer balancer;
  CHECK(balancer.balance({}).empty());
  CHECK(balancer.balance(std::vector<std::int32_t>{3, 1}).empty());
  CHECK(balancer.balance(std::vector<std::int32_t>{-3, -1}).empty());
  const auto transfers = balancer.balance(std::vector<std::int32_t>{3, -1, 0, -5});
  REQUIRE(transfers.size() == 1);
  CHECK(transfers[0] == Transfer{0, 3, 3});
}
