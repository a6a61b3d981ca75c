#include "core/rates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "../base/numbers.hpp"
#include "base/random.hpp"

using namespace dsanalyze;
using testing::infinite;

namespace {
const double not_a_number = std::nan("");
}  // namespace

TEST_CASE("the ingestion rate is the samples of all iterations over their time") {
  CHECK(ingestion_rate(100, 8 * 512, 20.48) == doctest::Approx(20'000));
  CHECK_THROWS_AS(ingestion_rate(0, 512, 1), std::domain_error);
  CHECK_THROWS_AS(ingestion_rate(100, 512, 0), std::domain_error);
  CHECK_THROWS_AS(ingestion_rate(100, 512, not_a_number), std::domain_error);
}

TEST_CASE("with nothing cached F is S, with all cached F is C") {
  CHECK(effective_fetch_rate(0, 30'000, 4000) == doctest::Approx(4000));
  CHECK(effective_fetch_rate(1, 30'000, 4000) == doctest::Approx(30'000));
}

TEST_CASE("with a cache without cost F is S over the share that is not cached") {
  for (const double x : {0.0, 0.25, 0.35, 0.5, 0.8}) CHECK(effective_fetch_rate(x, infinite, 4000) == doctest::Approx(4000 / (1 - x)));
}

TEST_CASE("the time of an epoch's fetch is its samples over F") {
  CHECK(fetch_seconds(1'281'167, 0.35, 251'950, 4698.5) == doctest::Approx(1'281'167 / effective_fetch_rate(0.35, 251'950, 4698.5)));
}

TEST_CASE("rates and fractions outside their range are refused") {
  CHECK_THROWS_AS(effective_fetch_rate(-0.01, 2, 1), std::domain_error);
  CHECK_THROWS_AS(effective_fetch_rate(1.01, 2, 1), std::domain_error);
  CHECK_THROWS_AS(effective_fetch_rate(not_a_number, 2, 1), std::domain_error);
  CHECK_THROWS_AS(effective_fetch_rate(0.5, 0, 1), std::domain_error);
  CHECK_THROWS_AS(effective_fetch_rate(0.5, 2, -1), std::domain_error);
  CHECK_THROWS_AS(fetch_seconds(0, 0.5, 2, 1), std::domain_error);
  CHECK_THROWS_AS(cache_fraction_for(0, 2, 1), std::domain_error);
  CHECK_THROWS_AS(bottleneck(1, 0, 1), std::domain_error);
  CHECK_THROWS_AS(bottleneck(1, 1, not_a_number), std::domain_error);
}

TEST_CASE("the cache fraction for a target inverts the effective fetch rate") {
  RandomStream random(11);
  for (int i = 0; i < 1000; ++i) {
    const double storage = random.uniform(10, 10'000);
    const double cache = storage * random.uniform(1.01, 100);
    const double x = random.uniform();
    const std::optional<double> found = cache_fraction_for(effective_fetch_rate(x, cache, storage), cache, storage);
    REQUIRE(found.has_value());
    CHECK(*found == doctest::Approx(x).epsilon(1e-6).scale(1));
  }
}

TEST_CASE("no cache is needed when storage keeps up, and none helps when the cache itself is too slow") {
  CHECK(cache_fraction_for(4000, 30'000, 4000) == 0);
  CHECK(cache_fraction_for(3999, 30'000, 4000) == 0);
  CHECK(cache_fraction_for(30'000, 30'000, 4000) == doctest::Approx(1));
  CHECK_FALSE(cache_fraction_for(30'001, 30'000, 4000).has_value());
}

TEST_CASE("the lowest of F, P and G binds and the second lowest is next") {
  const BottleneckRule io = bottleneck(100, 200, 300);
  CHECK(io.resource == Resource::io);
  CHECK(io.next == Resource::cpu);
  CHECK(io.samples_per_s == 100);
  CHECK(io.next_samples_per_s == 200);
  CHECK(bottleneck(200, 100, 300).resource == Resource::cpu);
  CHECK(bottleneck(200, 100, 300).next == Resource::io);
  CHECK(bottleneck(200, 300, 100).resource == Resource::gpu);
  CHECK(bottleneck(infinite, 300, 400).next == Resource::gpu);
}

TEST_CASE("without G the verdict is between prep and fetch") {
  CHECK(bottleneck(100, 200, std::nullopt).resource == Resource::io);
  CHECK(bottleneck(300, 200, std::nullopt).resource == Resource::cpu);
  CHECK(bottleneck(300, 200, std::nullopt).next == Resource::io);
}

TEST_CASE("data that just keeps up with the accelerator is no stall") {
  CHECK(bottleneck(100, 100, 100).resource == Resource::gpu);
  CHECK(resource_name(bottleneck(100, 100, 200).resource) == "cpu");
}

TEST_CASE("the shares of an epoch add up and follow from the three runs") {
  const StallShares shares = stall_shares(100, 200, 400);
  CHECK(shares.compute == doctest::Approx(0.25));
  CHECK(shares.prep == doctest::Approx(0.25));
  CHECK(shares.fetch == doctest::Approx(0.5));
  const StallShares none = stall_shares(500, 600, 400);
  CHECK(none.compute == doctest::Approx(1));
  CHECK(none.prep == doctest::Approx(0));
  CHECK(none.fetch == doctest::Approx(0));
  CHECK_THROWS_AS(stall_shares(infinite, infinite, infinite), std::domain_error);
}

TEST_CASE("cores and a GPU that prepare together end at the same time with the best share, and the slower decides with any other") {
  const PrepServers servers{8000, 20000, 16, 1e-4};
  // The GPU's 20,000 samples a second take two of the sixteen cores.
  CHECK(servers.cpu_beside_gpu() == doctest::Approx(7000));
  CHECK(servers.together() == doctest::Approx(27000));
  CHECK(servers.best_share() == doctest::Approx(20.0 / 27));
  CHECK(servers.with_share(servers.best_share()) == doctest::Approx(27000));
  CHECK(servers.with_share(0) == doctest::Approx(8000));
  CHECK(servers.with_share(1) == doctest::Approx(20000));
  CHECK(servers.with_share(0.9) == doctest::Approx(20000 / 0.9));
  CHECK(servers.with_share(0.5) == doctest::Approx(1 / (0.5 / 8000 + 0.5 * 1e-4 / 16)));
  for (double share = 0; share <= 1; share += 0.01) CHECK(servers.with_share(share) <= servers.together() * (1 + 1e-9));
  // Where a sample of the GPU takes its cores as long as one of their own, they are faster alone.
  const PrepServers costly{2500, 170, 2, 1e-3};
  CHECK(costly.best_share() == 0);
  CHECK(costly.with_share(0) == doctest::Approx(2500));
}

TEST_CASE("the best share is that with which cores, GPU and the copies of the cores' samples deliver the most") {
  std::mt19937 draw(4);
  const auto between = [&draw](double low, double high) { return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(draw)); };
  for (int setup = 0; setup < 200; ++setup) {
    const PrepServers servers{between(100, 20000), between(100, 20000), between(1, 64), between(1e-5, 1e-2)};
    const double transfer = between(10, 50000);
    const auto delivered = [&](double share) {
      return share < 1 ? std::min(servers.with_share(share), transfer / (1 - share)) : servers.with_share(1);
    };
    double best = 0;
    for (int step = 0; step <= 1000; ++step) best = std::max(best, delivered(step / 1000.0));
    CAPTURE(setup);
    CHECK(delivered(servers.best_share(transfer)) >= best * (1 - 1e-9));
  }
  // 20 % of the samples are copied at 5,000 a second while the GPU prepares its 80 % at 20,000.
  CHECK(PrepServers{8000, 20000, 16, 1e-4}.best_share(5000) == doctest::Approx(0.8));
}

TEST_CASE("a share of a batch is of whole samples") {
  CHECK(share_of_batch(0.4, 10) == doctest::Approx(0.4));
  CHECK(share_of_batch(0.4, 3) == doctest::Approx(1.0 / 3));
  CHECK(share_of_batch(0.4, 1) == 0);
  CHECK(share_of_batch(1, 7) == 1);
  CHECK(share_of_batch(0.5, 0) == 0);
}
