#include "models/fits/fits.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace dsanalyze;

namespace {

constexpr double no_threads = std::numeric_limits<double>::infinity();

bool close(double a, double b, double relative = 1e-6) { return std::abs(a - b) <= relative * std::abs(b) + 1e-12; }

std::vector<ScalingPoint> points_of(const ScalingLaw& law, const std::vector<double>& cores, double error = 0) {
  std::vector<ScalingPoint> points;
  points.reserve(cores.size());
  for (const double n : cores) points.push_back({n, law.rate(n), error});
  return points;
}

}  // namespace

TEST_CASE("a law is found again from points that follow it") {
  const ScalingLaw law{250, 0.03, 0.0004};
  const FittedScaling fitted(points_of(law, {1, 2, 4, 8, 16, 24}), no_threads);
  CHECK(close(fitted.law().one_core, 250));
  CHECK(close(fitted.law().contention, 0.03));
  CHECK(close(fitted.law().coherence, 0.0004, 1e-4));
  CHECK(close(fitted.factor(24, 64), law.rate(64) / law.rate(24)));
  CHECK(fitted.most_measured() == 24);
}

TEST_CASE("one point scales linearly, and two tell contention alone") {
  const FittedScaling one(std::vector<ScalingPoint>{{2, 980, 0.01}}, no_threads);
  CHECK(close(one.factor(2, 8), 4));
  const ScalingLaw law{500, 0.02};
  const FittedScaling two(points_of(law, {1, 2}), no_threads);
  CHECK(close(two.law().contention, 0.02));
  CHECK(two.law().coherence == 0);
}

TEST_CASE("points that scale better than linearly, by noise, give no negative contention") {
  const FittedScaling fitted(std::vector<ScalingPoint>{{1, 1130, 0.1}, {2, 2413, 0.02}}, no_threads);
  CHECK(fitted.law().contention == 0);
  CHECK(fitted.law().coherence == 0);
  CHECK(close(fitted.factor(2, 4), 2));
}

TEST_CASE("hyper-threads are told apart from cores: points up to all threads do not look like contention") {
  ScalingLaw law{300};
  law.physical_cores = 32;
  const FittedScaling fitted(points_of(law, {1, 2, 4, 8, 16, 32, 64}), 32);
  CHECK(fitted.law().contention < 1e-6);
  CHECK(close(fitted.factor(32, 64), 1.3));
}

TEST_CASE("the further from the points, the larger the error that their errors make") {
  const ScalingLaw law{250, 0.03};
  const FittedScaling fitted(points_of(law, {1, 2, 4, 8}, 0.02), no_threads);
  CHECK(fitted.factor_error(8, 8) == 0);
  const double near = fitted.factor_error(8, 12);
  const double far = fitted.factor_error(8, 48);
  CHECK(near > 0.001);
  CHECK(far > near);
  CHECK(far < 1);
}

TEST_CASE("a rate on other cores that were measured is as unsure as its own measurement, and not as that it is reckoned from") {
  const std::vector<ScalingPoint> points{{1, 300, 0.01}, {4, 1100, 0.02}, {8, 1900, 0.10}};
  const FittedScaling fitted(points, no_threads);
  // P of 8 cores times X(4) / X(8) is X(4): the error of P is in both and cancels.
  CHECK(fitted.scaled_error(8, 4, 0.10) == doctest::Approx(0.02));
  CHECK(fitted.scaled_error(8, 8, 0.10) == doctest::Approx(0.10));
  CHECK(fitted.scaled_error(8, 1, 0.10) == doctest::Approx(0.01));
}

TEST_CASE("the error of an extrapolated rate is what the points' errors make of the fit there, by moving them") {
  const std::vector<ScalingPoint> points{{1, 300, 0.01}, {2, 580, 0.03}, {4, 1050, 0.05}};
  const FittedScaling fitted(points, no_threads);
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double most = 0;
    for (const double sign : {-1.0, 1.0}) {
      std::vector<ScalingPoint> moved = points;
      moved[i].samples_per_s *= 1 + sign * points[i].relative_error;
      most = std::max(most, std::abs(FittedScaling(moved, no_threads).rate(16) / fitted.rate(16) - 1));
    }
    sum += most * most;
  }
  CHECK(fitted.scaled_error(4, 16, 0.05) == doctest::Approx(std::sqrt(sum)));
}

TEST_CASE("a rate that is no point of the fit brings an error of its own") {
  const std::vector<ScalingPoint> points{{1, 300, 0.01}, {2, 580, 0.01}};
  const FittedScaling fitted(points, no_threads);
  CHECK(fitted.scaled_error(3, 3, 0.2) == doctest::Approx(0.2));
  CHECK(fitted.scaled_error(3, 6, 0.2) == doctest::Approx(std::hypot(0.2, fitted.factor_error(3, 6))));
  CHECK(FittedScaling::linear(100).scaled_error(2, 8, 0.04) == doctest::Approx(0.04));
}

TEST_CASE("at a measured number of cores the measured rate counts, whatever the law") {
  const std::vector<ScalingPoint> points{{4, 900, 0.01}, {1, 300, 0.01}, {2, 540, 0.01}, {8, 1700, 0.01}};
  const FittedScaling fitted(points, no_threads);
  for (const ScalingPoint& point : points) CHECK(close(fitted.rate(point.cores), point.samples_per_s));
  CHECK(fitted.rate(3) > 540);
  CHECK(fitted.rate(3) < 900);
  CHECK(close(fitted.rate(16) / fitted.law().rate(16), 1700 / fitted.law().rate(8)));
}

TEST_CASE("the fewest cores that reach a rate are found, and none when it lies above the peak") {
  const ScalingLaw law{100, 0.02, 0.001};
  const FittedScaling fitted(points_of(law, {1, 2, 4, 8, 16}), no_threads);
  CHECK(close(fitted.cores_for(law.rate(12)).value_or(0), 12));
  const double peak = law.rate(law.peak_threads());
  CHECK_FALSE(fitted.cores_for(peak * 1.001).has_value());
  CHECK(fitted.cores_for(peak * 0.999).value_or(1e9) <= law.peak_threads());
  CHECK(close(FittedScaling::linear(100).cores_for(730).value_or(0), 7.3));
}

TEST_CASE("virtual cores scale linearly without error, however many") {
  const FittedScaling linear = FittedScaling::linear(300);
  CHECK(close(linear.factor(3, 300), 100));
  CHECK(linear.factor_error(3, 300) == 0);
  CHECK(std::isinf(linear.most_measured()));
}

TEST_CASE("points that are no points are left out") {
  const FittedScaling fitted(std::vector<ScalingPoint>{{0, 10, 0}, {4, 0, 0}, {2, 200, 0}}, no_threads);
  CHECK(close(fitted.law().rate(2), 200));
}

TEST_CASE("a batch law is found again, and one point leaves nothing fixed") {
  const BatchLaw law{0.004, 0.0005};
  std::vector<BatchPoint> points;
  for (const double batch : {32.0, 64.0, 256.0}) points.push_back({batch, law.rate(batch)});
  const BatchLaw fitted = fit_batch_law(points);
  CHECK(close(fitted.fixed_seconds, 0.004));
  CHECK(close(fitted.rate(512), law.rate(512)));
  const BatchLaw one = fit_batch_law(std::vector<BatchPoint>{{64, 900}});
  CHECK(one.fixed_seconds == 0);
  CHECK(close(one.rate(512), 900));
}

namespace {

/// 0.5 ms a request and 200 MB/s, sixteen at once; concurrency helps up to 16.
std::vector<StoragePoint> device_points() {
  std::vector<StoragePoint> points;
  const auto rate = [](double bytes, double at_once) { return std::min(at_once, 16.0) * bytes / (0.0005 + bytes / 12.5e6); };
  for (const double bytes : {4096.0, 16384.0, 65536.0, 112000.0}) points.push_back({bytes, 16, rate(bytes, 16)});
  for (const int at_once : {1, 4, 64}) points.push_back({112000, at_once, rate(112000, at_once)});
  return points;
}

}  // namespace

TEST_CASE("the storage curve gives back its points, and lies between neighbours") {
  const StorageCurve curve(device_points(), 16);
  for (const StoragePoint& point : device_points()) {
    const auto rate = curve.at(point.request_bytes, point.concurrency);
    REQUIRE(rate.has_value());
    CHECK(close(rate->bytes_per_s, point.bytes_per_s));
    CHECK_FALSE(rate->extrapolated);
  }
  const double between = curve.at(30'000, 16)->bytes_per_s;
  CHECK(between > curve.at(16'384, 16)->bytes_per_s);
  CHECK(between < curve.at(65'536, 16)->bytes_per_s);
}

TEST_CASE("past the largest request the cost line goes on, and says so") {
  const StorageCurve curve(device_points(), 16);
  const auto shard = curve.at(4e6, 16);
  REQUIRE(shard.has_value());
  CHECK(shard->extrapolated);
  CHECK(close(shard->bytes_per_s, 16 * 4e6 / (0.0005 + 4e6 / 12.5e6), 0.02));
}

TEST_CASE("past the measured concurrency nothing more is promised, and what differs in both is extrapolated") {
  const StorageCurve curve(device_points(), 16);
  const auto deep = curve.at(112'000, 256);
  REQUIRE(deep.has_value());
  CHECK(deep->extrapolated);
  CHECK(close(deep->bytes_per_s, curve.at(112'000, 64)->bytes_per_s));
  CHECK(curve.at(4096, 4)->extrapolated);
  CHECK_FALSE(curve.at(112'000, 4)->extrapolated);
}

TEST_CASE("a curve without points has no rates") { CHECK_FALSE(StorageCurve({}, 16).at(4096, 16).has_value()); }
