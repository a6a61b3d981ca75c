#include "core/rates.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "../base/numbers.hpp"

using namespace dsanalyze;
using testing::close_to;

TEST_CASE("without contention and coherence cores scale linearly") {
  const ScalingLaw law{100};
  for (const double cores : {0.5, 1.0, 2.0, 24.0, 1000.0}) CHECK(close_to(law.rate(cores), 100 * cores));
  CHECK(std::isinf(law.peak_threads()));
}

TEST_CASE("contention bounds the rate at one over its share, as Amdahl's law does") {
  const ScalingLaw law{100, 0.05};
  CHECK(close_to(law.rate(1), 100));
  CHECK(close_to(law.rate(20), 100 * 20 / (1 + 0.05 * 19)));
  CHECK(law.rate(1e9) < 2000);
}

TEST_CASE("coherence makes the rate fall beyond its peak") {
  const ScalingLaw law{100, 0.02, 0.001};
  const double peak = law.peak_threads();
  CHECK(close_to(peak, std::sqrt(0.98 / 0.001)));
  CHECK(law.rate(peak) > law.rate(peak * 0.8));
  CHECK(law.rate(peak) > law.rate(peak * 1.25));
}

TEST_CASE("twice the threads on the same cores bring 30 %, as the paper's 32 to 64 did") {
  ScalingLaw law{100};
  law.physical_cores = 32;
  CHECK(close_to(law.rate(64) / law.rate(32), 1.3));
  CHECK(close_to(law.rate(32), 3200));
}

TEST_CASE("a larger machine has as many threads a core as the host: twice its threads do twice its work") {
  ScalingLaw law{100};
  law.physical_cores = 4;
  law.host_threads = 8;
  CHECK(close_to(law.rate(8), 520));
  CHECK(close_to(law.rate(16), 2 * 520));
  CHECK(close_to(law.rate(12), 1.5 * 520));
  CHECK(close_to(law.rate(6), 460));
}

TEST_CASE("a peak beyond the host is at the threads whose cores it needs") {
  ScalingLaw law{100, 0.01, 0.002};
  law.physical_cores = 4;
  law.host_threads = 8;
  const double peak = law.peak_threads();
  CHECK(close_to(law.effective_cores(peak), std::sqrt(0.99 / 0.002)));
  CHECK(law.rate(peak) > law.rate(peak * 0.8));
  CHECK(law.rate(peak) > law.rate(peak * 1.25));
}

TEST_CASE("larger batches are ingested faster, up to one over a sample's own time") {
  const BatchLaw law{0.01, 0.001};
  CHECK(close_to(law.rate(10), 500));
  CHECK(close_to(law.rate(90), 900));
  CHECK(law.rate(1e6) < 1000);
}
