#include "base/statistics.hpp"

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "base/random.hpp"

using namespace dsanalyze;

TEST_CASE("mean and deviation of known values") {
  const std::array values = {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0};
  CHECK(mean(values) == doctest::Approx(5));
  CHECK(standard_deviation(values) == doctest::Approx(2.13809));
  CHECK(mean({}) == 0);
  CHECK(standard_deviation(std::array{3.0}) == 0);
}

TEST_CASE("quantiles interpolate between order statistics") {
  const std::vector<double> values = {4, 1, 3, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(median(values) == doctest::Approx(2.5));
  CHECK(quantile(values, 0.25) == doctest::Approx(1.75));
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile(values, 1.5) == 4);
}

TEST_CASE("Student's t agrees with the tables to a thousandth") {
  struct Point {
    std::size_t degrees;
    double t;
  };
  for (const Point& point : {Point{1, 12.706}, Point{2, 4.303}, Point{10, 2.228}, Point{30, 2.042}, Point{31, 2.0395}, Point{40, 2.0211},
                             Point{60, 2.0003}, Point{120, 1.9799}, Point{1000, 1.9623}, Point{100'000'000, 1.95996}}) {
    CAPTURE(point.degrees);
    CHECK(student_t95(point.degrees) == doctest::Approx(point.t).epsilon(0.0003));
  }
  CHECK_THROWS_AS(static_cast<void>(student_t95(0)), std::domain_error);
}

TEST_CASE("Student's t falls with every degree of freedom, across the end of its table too") {
  for (std::size_t degrees = 1; degrees < 200; ++degrees) CHECK(student_t95(degrees + 1) < student_t95(degrees));
}

TEST_CASE("the largest of normal draws has the mean of the tables [Teichroew, 1956]") {
  CHECK(mean_of_largest(1) == doctest::Approx(0).epsilon(1e-9));
  CHECK(mean_of_largest(2) == doctest::Approx(0.56418958));
  CHECK(mean_of_largest(4) == doctest::Approx(1.02937537));
  CHECK(mean_of_largest(8) == doctest::Approx(1.42360031));
  CHECK(mean_of_largest(20) == doctest::Approx(1.86747506));
  CHECK(mean_of_largest(1000) == doctest::Approx(3.24143577));
  CHECK_THROWS_AS(mean_of_largest(0.5), std::domain_error);
}

TEST_CASE("a mean's interval is Student's") {
  const Estimate estimate = estimate_mean(std::array{10.0, 12.0, 14.0});
  CHECK(estimate.value == doctest::Approx(12));
  CHECK(estimate.windows == 3);
  CHECK(estimate.ci95.low == doctest::Approx(12 - 4.3027 * 2 / 1.7320508).epsilon(1e-4));
  CHECK(estimate.relative_half_width() == doctest::Approx(4.3027 * 2 / 1.7320508 / 12).epsilon(1e-4));
}

TEST_CASE("one window gives its own value as interval and says that it is one") {
  const Estimate estimate = estimate_mean(std::array{10.0});
  CHECK(estimate.windows == 1);
  CHECK(estimate.ci95.low == 10);
  CHECK(estimate.ci95.high == 10);
  CHECK(estimate_mean({}).windows == 0);
}

TEST_CASE("intervals that touch overlap") {
  CHECK(Interval{1, 2}.overlaps({2, 3}));
  CHECK_FALSE(Interval{1, 2}.overlaps({2.1, 3}));
  CHECK(Interval{1, 5}.overlaps({2, 3}));
}

TEST_CASE("a rate is the whole amount by the whole time, and its interval holds that as often as it says") {
  const std::vector<Stretch> two{{100, 1}, {100, 9}};
  CHECK(estimate_of_ratio(two).value == doctest::Approx(20));
  CHECK(estimate_of_ratio(std::vector<Stretch>{}).value == 0);
  CHECK(estimate_of_ratio(std::vector<Stretch>{{100, 2}}).windows == 1);
  // Stretches of a training that is slow now and then: every tenth takes ten times as long, so that 100 take 190 seconds.
  RandomStream random(5);
  int held = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<Stretch> stretches;
    for (int i = 0; i < 60; ++i) stretches.push_back({1, (random.uniform(0, 1) < 0.1 ? 10 : 1) * random.uniform(0.9, 1.1)});
    const Interval interval = estimate_of_ratio(stretches).ci95;
    held += interval.low <= 1 / 1.9 && 1 / 1.9 <= interval.high;
  }
  CHECK(held > 900);
}
