#include <doctest/doctest.h>

#include "dsanalyze/core/rates.hpp"

using namespace dsanalyze;

namespace {

// [DS-Analyzer, Table 5]: AlexNet, ImageNet-1k, Config-SSD-V100; predicted training speed in samples/s by cached share of the dataset.
constexpr double predicted_25 = 6226;
constexpr double predicted_35 = 7164;
constexpr double predicted_50 = 9225;

struct Server {
  double cache = 0;
  double storage = 0;
};

// C and S from two predictions: Eq 4 is linear in 1/C and 1/S, 1/F = x (1/C) + (1 - x) (1/S).
Server solve(double x1, double fetch1, double x2, double fetch2) {
  const double determinant = x1 * (1 - x2) - x2 * (1 - x1);
  const double per_cache = ((1 - x2) / fetch1 - (1 - x1) / fetch2) / determinant;
  const double per_storage = (x1 / fetch2 - x2 / fetch1) / determinant;
  return {1 / per_cache, 1 / per_storage};
}

const Server table5 = solve(0.25, predicted_25, 0.50, predicted_50);

}  // namespace

TEST_CASE("S and C solved from Table 5's 25 % and 50 % columns give those columns back") {
  CHECK(effective_fetch_rate(0.25, table5.cache, table5.storage) == doctest::Approx(predicted_25).epsilon(1e-9));
  CHECK(effective_fetch_rate(0.50, table5.cache, table5.storage) == doctest::Approx(predicted_50).epsilon(1e-9));
}

TEST_CASE("Table 5, 35 % cached: paper 7164 samples/s, ours within 0.2 %") {
  CHECK(effective_fetch_rate(0.35, table5.cache, table5.storage) == doctest::Approx(predicted_35).epsilon(0.002));
}

TEST_CASE("Table 5's S is the server's SSD: 530 MB/s over samples of 146 GB / 1,281,167, within 1.5 %") {
  CHECK(table5.storage == doctest::Approx(530e6 / (146e9 / 1'281'167)).epsilon(0.015));
}

TEST_CASE("Table 5's C is memory: tens of GB/s, as App. C.1 says") {
  const double bytes_per_s = table5.cache * 146e9 / 1'281'167;
  CHECK(bytes_per_s > 20e9);
  CHECK(bytes_per_s < 100e9);
}

TEST_CASE("Figure 1, 35 % cached on the 530 MB/s SSD: paper 802 MB/s, ours within 1 %") {
  constexpr double bytes = 146e9 / 1'281'167;
  const double fetched_bytes_per_s = effective_fetch_rate(0.35, table5.cache, 530e6 / bytes) * bytes;
  CHECK(fetched_bytes_per_s == doctest::Approx(802e6).epsilon(0.01));
}

TEST_CASE("App. C.2: fetch stalls end at a cache of 55 %, where F meets prep's rate") {
  const double prep = effective_fetch_rate(0.55, table5.cache, table5.storage);
  const auto fraction = cache_fraction_for(prep, table5.cache, table5.storage);
  REQUIRE(fraction.has_value());
  CHECK(*fraction == doctest::Approx(0.55).epsilon(1e-9));
  constexpr double ingestion = 8 * 2620;
  CHECK(bottleneck(effective_fetch_rate(0.50, table5.cache, table5.storage), prep, ingestion).resource == Resource::io);
  CHECK(bottleneck(effective_fetch_rate(0.60, table5.cache, table5.storage), prep, ingestion).resource == Resource::cpu);
}

TEST_CASE("Figure 1, ResNet-18: prep of 1062 MB/s for 2283 MB/s of accelerators is a stall of half the epoch, as section 3.3.2 says") {
  const StallShares shares = stall_shares(1e12, 1062e6, 2283e6);
  CHECK(shares.prep == doctest::Approx(0.5).epsilon(0.1));
}
