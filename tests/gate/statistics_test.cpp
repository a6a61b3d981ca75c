#include <doctest/doctest.h>

#include <cmath>

#include "dsanalyze/base/distributions.hpp"
#include "dsanalyze/base/random.hpp"
#include "sessions.hpp"
#include "statistics.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;

TEST_CASE("Welch's contrast is that of the textbook") {
  // Scatters of 1 and 2 about means of 10 and 13: standard error sqrt(1/3 + 4/3), (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) degrees.
  const std::vector<double> baseline = {9, 10, 11};
  const std::vector<double> current = {11, 13, 15};
  const Contrast contrast = welch(baseline, current);
  CHECK(contrast.estimate == doctest::Approx(3));
  CHECK(contrast.standard_error == doctest::Approx(std::sqrt(5.0 / 3)));
  CHECK(contrast.degrees == doctest::Approx(50.0 / 17));
  CHECK(contrast.residuals == std::vector<double>{-1, 0, 1, -2, 0, 2});
}

TEST_CASE("one value on one side takes the other side's scatter, one on each has none") {
  const Contrast one = welch(std::vector{9.0, 10.0, 11.0}, std::vector{13.0});
  CHECK(one.degrees == 2);
  CHECK(one.standard_error == doctest::Approx(std::sqrt(1 + 1.0 / 3)));
  CHECK(welch(std::vector{9.0}, std::vector{13.0}).degrees == 0);
}

TEST_CASE("one session of the baseline cannot tell how far sessions lie apart, however many the current side has") {
  CHECK(between_sessions(std::vector{1.0}, std::vector{1.0, 2.0, 3.0}).degrees == 0);
  CHECK(between_sessions(std::vector{1.0, 2.0, 3.0}, std::vector{1.0}).degrees == 2);
}

TEST_CASE("independent metrics share the error, metrics that move together do not") {
  RandomStream random(1);
  std::vector<std::vector<double>> residuals(6);
  for (auto& list : residuals)
    for (int i = 0; i < 400; ++i) list.push_back(random.normal());
  CHECK(simultaneous_level(residuals, std::vector<double>(residuals.size(), 1), 0.01) == doctest::Approx(0.01 / 6).epsilon(0.1));
  for (auto& list : residuals) list = residuals.front();
  CHECK(simultaneous_level(residuals, std::vector<double>(residuals.size(), 1), 0.01) > 0.0085);
  CHECK(simultaneous_level({residuals.front()}, {1}, 0.01) == 0.01);
}

TEST_CASE("a metric of less weight leaves more to the others, and alone has the whole") {
  const std::vector<std::vector<double>> residuals(3, {1, -1, 2, -2});
  CHECK(simultaneous_level(residuals, {1, 0.25, 0.25}, 0.01) == doctest::Approx(0.01 / 1.5).epsilon(0.1));
  CHECK(simultaneous_level({residuals.front()}, {0.25}, 0.01) * 0.25 == doctest::Approx(0.01));
}

TEST_CASE("few observations are no ground to take metrics for one") {
  const std::vector<std::vector<double>> residuals(3, {1, -1, 2, -2});
  CHECK(simultaneous_level(residuals, std::vector<double>(residuals.size(), 1), 0.01) == doctest::Approx(0.01 / 3).epsilon(0.1));
}

TEST_CASE("correlations that contradict one another still give a level") {
  const std::vector<double> a = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
  const std::vector<double> b = {1, 1, -1, -1, 1, 1, -1, -1, 1, -1};
  std::vector<double> sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  const double level = simultaneous_level({a, b, sum}, {1, 1, 1}, 0.01);
  CHECK(level >= 0.01 / 3);
  CHECK(level <= 0.01);
}

TEST_CASE("one look has the whole level, and of several the first are stricter") {
  CHECK(look_levels(std::vector{1.0}, 0.01).front() == doctest::Approx(0.01).epsilon(1e-3));
  const auto levels = look_levels(std::vector{0.3, 0.4, 0.6, 0.8, 1.0}, 0.01);
  REQUIRE(levels.size() == 5);
  CHECK(levels.front() == doctest::Approx(0.01 * std::pow(0.3, spending_power)).epsilon(1e-3));
  for (const double level : levels) CHECK(level < 0.01);
}

TEST_CASE("random walks cross the bounds of all looks together as often as they may") {
  const std::vector<double> information = {0.3, 0.4, 0.6, 0.8, 1.0};
  std::vector<double> bounds;
  for (const double level : look_levels(information, 0.05)) bounds.push_back(-normal_quantile(level));
  RandomStream random(7);
  constexpr int walks = 100'000;
  int crossed = 0;
  for (int walk = 0; walk < walks; ++walk) {
    double sum = 0, before = 0;
    for (std::size_t look = 0; look < bounds.size(); ++look) {
      sum += random.normal() * std::sqrt(information[look] - before);
      before = information[look];
      if (sum / std::sqrt(before) <= bounds[look]) continue;
      ++crossed;
      break;
    }
  }
  CHECK(static_cast<double>(crossed) / walks == doctest::Approx(0.05).epsilon(0.05));
}

TEST_CASE("a quarter of the distance needs sixteen times the repetitions") {
  const auto few = needed_repetitions(0.1, 0.04, 0.01, 2);
  const auto many = needed_repetitions(0.1, 0.01, 0.01, 2);
  CHECK(static_cast<double>(many) / static_cast<double>(few) == doctest::Approx(16).epsilon(0.1));
  CHECK(needed_repetitions(1, 1e-9, 0.01, 2) == most_repetitions);
  CHECK(needed_repetitions(0, 0.01, 0.01, 2) == 2);
}

TEST_CASE("an instant is read as the calendar has it") {
  CHECK(utc_seconds("1970-01-01T00:00:00Z") == 0);
  CHECK(utc_seconds("2026-11-20T21:05:33Z") == 1'795'208'733);
  for (const char* text : {"", "2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T25:00:00Z", "2026-11-20T21:05:33", "2026-1x-20T21:05:33Z"})
    CHECK_FALSE(utc_seconds(text).has_value());
}

TEST_CASE("sessions that shift both sides are fitted by least squares, however many runs each side has in each") {
  const std::vector<Block> blocks{{{1.0, 1.2, 1.1}, {1.5}}, {{3.0}, {3.3, 3.5, 3.1}}, {{2.0, 2.2}, {2.4, 2.6}}};
  const Contrast contrast = blocked(blocks);
  // The normal equations of three sessions and one change, solved apart.
  CHECK(contrast.estimate == doctest::Approx(0.37));
  CHECK(contrast.degrees == 8);
  CHECK(contrast.standard_error == doctest::Approx(0.0852203).epsilon(1e-5));
  double sum = 0;
  for (const double residual : contrast.residuals) sum += residual;
  CHECK(sum == doctest::Approx(0));
}

TEST_CASE("one run a side in each session is a comparison of pairs, and one session alone tells nothing") {
  const std::vector<double> differences{0.1, 0.3, 0.25, 0.2};
  std::vector<Block> blocks;
  for (const double difference : differences) blocks.push_back({{5 * difference}, {6 * difference}});
  const Contrast expected = paired(differences);
  const Contrast contrast = blocked(blocks);
  CHECK(contrast.estimate == doctest::Approx(expected.estimate));
  CHECK(contrast.standard_error == doctest::Approx(expected.standard_error));
  CHECK(contrast.degrees == expected.degrees);
  CHECK(blocked(std::vector<Block>{{{1.0}, {2.0}}}).degrees == 0);
}
