#include <doctest/doctest.h>

#include <array>

#include "core/rates.hpp"
#include "datasets.hpp"
#include "rows.hpp"

using namespace dsanalyze;
using namespace dsanalyze::fidelity;

namespace {

// [DS-Analyzer, Table 5]: AlexNet, ImageNet-1k, Config-SSD-V100; predicted and measured training speed in samples/s by cached share of the dataset.
struct Column {
  double cached;
  double predicted;
  double empirical;
};
constexpr std::array<Column, 3> table5{{{0.25, 6226, 6130}, {0.35, 7164, 7118}, {0.50, 9225, 9022}}};

struct Rate {
  double cache = 0;
  double storage = 0;
};

// C and S from two columns: Eq 4 is linear in 1/C and 1/S, 1/F = x (1/C) + (1 - x) (1/S).
Rate solve(const Column& one, const Column& other) {
  const double determinant = one.cached * (1 - other.cached) - other.cached * (1 - one.cached);
  const double per_cache = ((1 - other.cached) / one.predicted - (1 - one.cached) / other.predicted) / determinant;
  const double per_storage = (one.cached / other.predicted - other.cached / one.predicted) / determinant;
  return {1 / per_cache, 1 / per_storage};
}

const Rate outer = solve(table5[0], table5[2]);
const double prep_at_55 = effective_fetch_rate(0.55, outer.cache, outer.storage);
constexpr double ingestion = 8 * 2620;

}  // namespace

TEST_CASE("Table 5: each column's F from C and S of the two others, within 0.5 % of the predicted row and 4 % of the empirical one") {
  for (std::size_t tested = 0; tested < table5.size(); ++tested) {
    const Rate rate = solve(table5[(tested + 1) % 3], table5[(tested + 2) % 3]);
    const double ours = effective_fetch_rate(table5[tested].cached, rate.cache, rate.storage);
    const int cached = static_cast<int>(100 * table5[tested].cached);
    check("rates", "Table 5", "F at " + std::to_string(cached) + " % cached, predicted row", table5[tested].predicted, ours, {"samples/s", 0},
          within_share(0.005), "the paper's Eq 4 against ours: C and S solved from the other two columns of this row");
    check("rates", "Table 5", "F at " + std::to_string(cached) + " % cached, empirical row", table5[tested].empirical, ours, {"samples/s", 0},
          within_share(0.04), "the same prediction against the speed that the paper measured; its own is \"almost 4%\" off");
  }
}

TEST_CASE("Table 5's S is the server's SSD of 530 MB/s, and its C memory of tens of GB/s") {
  check("rates", "Table 2 and 5", "S in bytes, from the columns 25 and 50 %", 530, outer.storage * imagenet_sample_bytes / 1e6, {"MB/s", 0},
        within_share(0.015), "146 GB in 1,281,167 samples");
  check("rates", "App. C.1 and Table 5", "C in bytes, from the same columns (\"few tens of GBps\")", 30, outer.cache * imagenet_sample_bytes / 1e9,
        {"GB/s", 1}, between(20, 100), "");
}

TEST_CASE("Figure 16: fetch stalls end at a cache of 55 %, and more memory is useless beyond") {
  const auto fraction = cache_fraction_for(prep_at_55, outer.cache, outer.storage);
  REQUIRE(fraction.has_value());
  check("rates", "Fig 16, App. C.2", "cache that ends fetch stalls", 0.55, *fraction, percent(), reported(),
        "the fit itself: P is F(55 %), for the figure has no number for it");
  for (const double cached : {0.25, 0.35, 0.50, 0.54})
    CHECK(bottleneck(effective_fetch_rate(cached, outer.cache, outer.storage), prep_at_55, ingestion).resource == Resource::io);
  const double at_56 = bottleneck(effective_fetch_rate(0.56, outer.cache, outer.storage), prep_at_55, ingestion).samples_per_s;
  const BottleneckRule full = bottleneck(effective_fetch_rate(1, outer.cache, outer.storage), prep_at_55, ingestion);
  // Follows from the fit of P, and is no comparison with the paper.
  CHECK(full.resource == Resource::cpu);
  CHECK(full.samples_per_s == at_56);
}

TEST_CASE("Figure 16 and Table 7: P of 10,208 samples/s is 8 jobs of 1,399") {
  check("rates", "Table 7 and Fig 16", "P: eight AlexNet jobs whose bottleneck is prep, 8 x 1399", 8 * 1399, prep_at_55, {"samples/s", 0},
        within_share(0.1), "ours is F(55 %) of Table 5's C and S");
}

TEST_CASE("Figure 1: 802 MB/s of fetching at 35 % cached on the 530 MB/s SSD") {
  const double fetched = effective_fetch_rate(0.35, outer.cache, 530e6 / imagenet_sample_bytes) * imagenet_sample_bytes;
  check("rates", "Fig 1", "effective fetch at 35 % cached", 802, fetched / 1e6, {"MB/s", 0}, within_share(0.01), "530 MB/s and Table 5's C");
}

TEST_CASE("Figure 1: prep of 735 MB/s binds against accelerators of 2283 MB/s") {
  const BottleneckRule rule =
      bottleneck(effective_fetch_rate(0.35, outer.cache, 530e6 / imagenet_sample_bytes) * imagenet_sample_bytes, 735e6, 2283e6);
  // 735 MB/s goes in and comes out: what is tested is which of the figure's rates binds.
  CHECK(rule.resource == Resource::cpu);
  CHECK(bottleneck(802e6, 1062e6, 2283e6).resource == Resource::io);
}

TEST_CASE("Figure 1, ResNet-18: prep of 1062 MB/s for 2283 MB/s of accelerators is a stall of half the epoch") {
  check("rates", "Section 3.3.2 and Fig 1", "prep stall of ResNet-18, everything cached (\"50 %\")", 0.5, stall_shares(1e12, 1062e6, 2283e6).prep,
        percent(), within(0.05), "stalls as differences of time per sample");
}
