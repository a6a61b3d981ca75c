#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/histogram.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"

using namespace dsanalyze;

TEST_CASE("a duration lies in its bucket, from a nanosecond to minutes") {
  for (Nanoseconds duration = 1; duration < 1'000'000'000'000; duration = duration * 5 / 4 + 1) {
    const std::uint32_t bucket = DurationCounts::bucket_of(duration);
    CHECK(DurationCounts::bucket_begin(bucket) <= to_seconds(duration) * (1 + 1e-12));
    CHECK(to_seconds(duration) < DurationCounts::bucket_begin(bucket + 1) * (1 + 1e-12));
  }
}

TEST_CASE("durations outside the range are counted at its ends") {
  CHECK(DurationCounts::bucket_of(-5) == 0);
  CHECK(DurationCounts::bucket_of(0) == 0);
  CHECK(DurationCounts::bucket_of(INT64_MAX) == DurationCounts::bucket_count - 1);
}

TEST_CASE("quantiles of a histogram are those of the durations within 4 %, and its mean is theirs") {
  RandomStream random(7);
  DurationHistogram histogram;
  std::vector<double> seconds;
  for (int i = 0; i < 20'000; ++i) {
    const Nanoseconds duration = to_nanoseconds(0.002 * std::exp(0.7 * random.normal()));
    histogram.add(duration);
    seconds.push_back(to_seconds(duration));
  }
  const DurationCounts counts = histogram.counts();
  CHECK(counts.count() == seconds.size());
  CHECK(std::abs(counts.mean_seconds() / mean(seconds) - 1) < 1e-9);
  const std::vector<double> found = counts.quantiles(21);
  REQUIRE(found.size() == 21);
  CHECK(std::ranges::is_sorted(found));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double exact = quantile(seconds, static_cast<double>(i) / 20);
    CHECK(std::abs(found[i] / exact - 1) < 0.04);
  }
}

TEST_CASE("histograms of several threads add up") {
  DurationHistogram left;
  DurationHistogram right;
  left.add(1000);
  right.add(3000);
  right.add(5000);
  DurationCounts sum = left.counts();
  sum += right.counts();
  CHECK(sum.count() == 3);
  CHECK(std::abs(sum.mean_seconds() - 3e-6) < 1e-15);
}

TEST_CASE("durations known by their sum are counted at their mean, and their sum is kept") {
  DurationHistogram histogram;
  histogram.add_mean(1003, 4);
  const DurationCounts counts = histogram.counts();
  CHECK(counts.count() == 4);
  CHECK(std::abs(counts.mean_seconds() - 1003e-9 / 4) < 1e-15);
  CHECK(std::abs(counts.quantiles(3)[1] / 250e-9 - 1) < 0.04);
}

TEST_CASE("a histogram that saw nothing has no quantiles") {
  CHECK(DurationHistogram().counts().quantiles(11).empty());
  CHECK(DurationCounts().mean_seconds() == 0);
}
