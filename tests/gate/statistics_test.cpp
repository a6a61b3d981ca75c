#include <doctest/doctest.h>

#include <cmath>

#include "../base/sanitizers.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "gate/runs.hpp"
#include "gate/statistics.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;

TEST_CASE("two samples have a scatter each, and the margin is that of both by their own degrees of freedom") {
  // Variances of 1 and 8 about means of 10 and 13.
  const Contrast contrast = two_samples(std::vector<double>{9, 10, 11}, std::vector<double>{11, 15});
  CHECK(contrast.estimate == doctest::Approx(3));
  REQUIRE(contrast.errors.size() == 2);
  CHECK(contrast.errors[0].value == doctest::Approx(1.0 / 3));
  CHECK(contrast.errors[1].value == doctest::Approx(4));
  const double first = student_t_quantile(0.99, 2);
  const double second = student_t_quantile(0.99, 1);
  CHECK(margin(contrast, 0.01) == doctest::Approx(std::sqrt(first * first / 3 + second * second * 4)));
  CHECK(contrast.residuals == std::vector<double>{-1, 0, 1, -2, 2});
}

TEST_CASE("two samples of as many values have Welch's degrees of freedom, those of the textbook") {
  // Scatters of 1 and 2 about means of 10 and 13: (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) degrees.
  const Contrast contrast = two_samples(std::vector<double>{9, 10, 11}, std::vector<double>{11, 13, 15});
  REQUIRE(contrast.errors.size() == 1);
  CHECK(contrast.errors.front().value == doctest::Approx(5.0 / 3));
  CHECK(contrast.errors.front().degrees == doctest::Approx(50.0 / 17));
}

TEST_CASE("a side of one value has no scatter, and does not borrow the other's") {
  CHECK_FALSE(two_samples(std::vector{9.0, 10.0, 11.0}, std::vector{13.0}).has_scatter());
  CHECK_FALSE(two_samples(std::vector{9.0}, std::vector{13.0}).has_scatter());
}

TEST_CASE("a trimmed mean leaves out 15 % at either end, and its scatter is the winsorized one") {
  const TrimmedMean trimmed = trimmed_mean(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 1000});
  CHECK(trimmed.value == doctest::Approx(4.5));
  // 1 1 2 3 4 5 6 7 8 8: squares about their mean of 4.5 over h (h - 1) with h = 8.
  CHECK(trimmed.error.value == doctest::Approx(66.5 / 56));
  CHECK(trimmed.error.degrees == doctest::Approx(35.0 / 6));
  CHECK(trimmed.residuals.back() == doctest::Approx(3.5));
  CHECK(trimmed.far_off == std::vector<double>{995.5});
  CHECK(trimmed_mean(std::vector<double>{1, 2, 3, 6}).value == doctest::Approx(3));
}

TEST_CASE("Student's t of a trimmed mean of normal values passes its quantiles as often as it may" * doctest::skip(testing::too_often)) {
  for (const std::size_t size : {7UL, 8UL, 12UL, 20UL}) {
    RandomStream random(size);
    constexpr int samples = 20'000;
    constexpr double level = 0.0075;
    int passed = 0;
    for (int i = 0; i < samples; ++i) {
      std::vector<double> values(size);
      for (double& value : values) value = random.normal();
      const Contrast contrast = paired(values);
      passed += std::fabs(contrast.estimate) > margin(contrast, level) ? 1 : 0;
    }
    CAPTURE(size);
    CHECK(passed <= 2 * level * samples + 4 * std::sqrt(2 * level * samples));
    CHECK(passed >= 2 * level * samples - 6 * std::sqrt(2 * level * samples));
  }
}

TEST_CASE("one session of the baseline cannot tell how far sessions lie apart, however many the current side has") {
  CHECK_FALSE(between_sessions({{1.0}}, {{1.0}, {2.0}, {3.0}}).has_scatter());
  CHECK(between_sessions({{1.0}, {2.0}, {3.0}}, {{1.0}, {2.0}}).has_scatter());
}

TEST_CASE("one current run is too few, as what met it alone looks like a change") {
  CHECK_FALSE(between_sessions({{1.0, 1.1}, {2.0, 2.1}, {3.0, 3.1}}, {{1.0}}).has_scatter());
  CHECK(between_sessions({{1.0, 1.1}, {2.0, 2.1}, {3.0, 3.1}}, {{1.0, 1.2}}).has_scatter());
}

TEST_CASE("a session of few runs is known less well than those of many, by the scatter within sessions") {
  // Sessions' means differ by nothing, runs by a deviation of 1: the mean of three runs has a variance of 1/3 beyond the 1/24 of all the others.
  const std::vector<double> many{-1, 1, -1, 1, -1, 1, -1, 1};
  const Contrast contrast = between_sessions({many, many, many}, {{-1, 0, 1}});
  CHECK(contrast.errors.front().value == doctest::Approx(0));
  double most = 0;
  for (const SquaredError& error : contrast.further) most = std::max(most, error.value);
  CHECK(most == doctest::Approx(1.0 / 3 - 1.0 / 24).epsilon(0.15));
  // With as many runs in each session nothing is to be added but what one side scatters beyond the other.
  const Contrast even = between_sessions({many, many, many}, {many});
  for (const SquaredError& error : even.further) CHECK(error.value < 0.15);
}

TEST_CASE("a single session's t has few degrees of freedom, as its tail is averaged with no other") {
  const SessionRuns twelve(12, {1.0, 2.0});
  CHECK(between_sessions(twelve, {{1.0, 2.0}}).errors.front().degrees == 4);
  CHECK(between_sessions(twelve, {{1.0, 2.0}, {1.5, 2.0}}).errors.front().degrees == doctest::Approx(12));
}

TEST_CASE("sessions of unequal numbers of runs count as fewer degrees of freedom") {
  const SessionRuns few(4, {1.0}), many(4, std::vector<double>(10, 1.0));
  // (3 + 0.3)^2 / (3 + 0.03)
  CHECK(between_sessions(few, many).errors.front().degrees == doctest::Approx(10.89 / 3.03));
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
  // Each side has the runs that least squares leave it of 8 degrees of freedom, and a scatter of its own.
  REQUIRE(contrast.errors.size() == 2);
  CHECK(contrast.errors[0].degrees + contrast.errors[1].degrees == doctest::Approx(8));
  CHECK(degrees_of_blocks(blocks) == doctest::Approx(std::min(contrast.errors[0].degrees, contrast.errors[1].degrees)));
  CHECK(std::sqrt(contrast.errors[0].value + contrast.errors[1].value) == doctest::Approx(0.0852203).epsilon(0.2));
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
  CHECK(margin(contrast, 0.01) == doctest::Approx(margin(expected, 0.01)));
  CHECK_FALSE(blocked(std::vector<Block>{{{1.0}, {2.0}}}).has_scatter());
}

TEST_CASE("a side that has one run in each of few sessions is not judged by the scatter of the other's many") {
  const std::vector<double> many{1.0, 1.01, 0.99, 1.0, 1.01, 0.99};
  CHECK_FALSE(blocked(std::vector<Block>{{many, {0.5}}, {many, {1.0}}}).has_scatter());
}
