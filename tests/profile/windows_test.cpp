#include "profile/windows.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

/// 100 samples/s, a point every tenth of a second, for ten seconds.
std::vector<ProgressPoint> steady() {
  std::vector<ProgressPoint> points;
  for (int i = 0; i <= 100; ++i) points.push_back({i * nanoseconds_per_second / 10, static_cast<std::uint64_t>(i) * 10});
  return points;
}

HostFacts two_cores() {
  HostFacts host;
  host.cores_usable = 2;
  host.cores_online = 2;
  host.cpus_allowed = {0, 1};
  return host;
}

/// Both cores busy with our own work; others take `others` CPU seconds in each second from `begin` to `end`.
std::vector<CpuPoint> cpu_with_others(double others, int begin, int end) {
  std::vector<CpuPoint> points;
  double taken = 0;
  for (int i = 0; i <= 100; ++i) {
    if (i > begin * 10 && i <= end * 10) taken += others / 10;
    CpuSample cpu;
    cpu.wall_seconds = i / 10.0;
    cpu.own_seconds = i / 10.0;
    cpu.busy_seconds = cpu.own_seconds + taken;
    points.push_back({i * nanoseconds_per_second / 10, cpu});
  }
  return points;
}

TEST_CASE("a steady rate is found exactly, with a narrow interval, from ten windows of a second") {
  const WindowedRate rate = windowed_rate(steady(), {}, 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK(rate.estimate.value == doctest::Approx(100));
  CHECK(rate.kept == 10);
  CHECK(rate.voided == 0);
  CHECK(rate.estimate.relative_half_width() < 1e-9);
}

/// Windows of which each is like the one before: the part of it that is new is drawn.
double covered_share(double alike, std::size_t windows, bool as_independent) {
  RandomStream random(mix(11, windows));
  constexpr int runs = 4000;
  int covered = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> values;
    double value = random.normal();
    for (std::size_t i = 0; i < windows; ++i) {
      values.push_back(value);
      value = alike * value + std::sqrt(1 - alike * alike) * random.normal();
    }
    const Estimate estimate = as_independent ? estimate_mean(values) : estimate_of_sequence(values);
    covered += estimate.ci95.low <= 0 && 0 <= estimate.ci95.high ? 1 : 0;
  }
  return static_cast<double>(covered) / runs;
}

TEST_CASE("windows that are alike from one to the next widen the interval, so that it holds the mean as often as it says") {
  CHECK(covered_share(0.3, 30, true) < 0.88);
  CHECK(covered_share(0.3, 30, false) > 0.935);
  CHECK(covered_share(0.6, 60, true) < 0.72);
  CHECK(covered_share(0.6, 60, false) > 0.92);
  const double independent = covered_share(0, 30, false);
  CHECK(independent > 0.95);
  CHECK(independent < 0.99);
}

TEST_CASE("an iteration that is seen late widens the interval by what it is late, and no more") {
  std::vector<ProgressPoint> points;
  for (int i = 0; i <= 40; ++i) points.push_back({i * nanoseconds_per_second / 100, static_cast<std::uint64_t>(i) * 32});
  points[20].at = points[21].at - 1;
  const WindowedRate rate = iteration_rate(points);
  CHECK(rate.estimate.value == doctest::Approx(3200));
  CHECK(rate.estimate.ci95.high < 3200 * 1.2);
  CHECK(rate.estimate.ci95.low > 3200 * 0.8);
}

TEST_CASE("windows in which others took more than 2 % of our CPU are left out and counted") {
  auto points = steady();
  for (auto& point : points) {
    if (point.at > 3 * nanoseconds_per_second) point.samples -= 50;  // half a second lost while others ran
  }
  const WindowedRate rate = windowed_rate(points, cpu_with_others(0.5, 2, 4), 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK(rate.voided == 2);
  CHECK(rate.kept == 8);
  CHECK(rate.estimate.value == doctest::Approx(100).epsilon(0.02));
  CHECK_FALSE(rate.all_void);
}

TEST_CASE("a run that only waits does not care for others") {
  const WindowedRate rate = windowed_rate(steady(), cpu_with_others(0.5, 0, 10), 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::no);
  CHECK(rate.voided == 0);
}

TEST_CASE("where others are at work most of the time their windows count, and are counted as shared") {
  const WindowedRate rate = windowed_rate(steady(), cpu_with_others(0.6, 0, 10), 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK_FALSE(rate.all_void);
  CHECK(rate.kept == 10);
  CHECK(rate.shared == 10);
  CHECK(rate.voided == 0);
  const WindowedRate half = windowed_rate(steady(), cpu_with_others(0.6, 0, 5), 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK(half.kept == 5);
  CHECK(half.shared == 0);
}

TEST_CASE("when others take nearly all of every window the rate is still reported, and marked") {
  const WindowedRate rate = windowed_rate(steady(), cpu_with_others(1.8, 0, 10), 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK(rate.all_void);
  CHECK(rate.kept == 0);
  CHECK(rate.voided == 10);
  CHECK(rate.estimate.value == doctest::Approx(100));
}

TEST_CASE("a short run still gives five windows, and nothing measured gives none") {
  const auto points = steady();
  CHECK(windowed_rate(points, {}, 0, 2 * nanoseconds_per_second, two_cores(), JudgeCpu::yes).kept == 5);
  CHECK(windowed_rate({}, {}, 0, nanoseconds_per_second, two_cores(), JudgeCpu::yes).kept == 0);
  CHECK(windowed_rate(points, {}, 5, 5, two_cores(), JudgeCpu::yes).estimate.value == 0);
}

TEST_CASE("uneven windows widen the interval") {
  std::vector<ProgressPoint> points{{0, 0}};
  for (int i = 1; i <= 10; ++i) points.push_back({i * nanoseconds_per_second, points.back().samples + (i % 2 == 0 ? 120U : 80U)});
  const WindowedRate rate = windowed_rate(points, {}, 0, 10 * nanoseconds_per_second, two_cores(), JudgeCpu::yes);
  CHECK(rate.estimate.value == doctest::Approx(100));
  CHECK(rate.estimate.ci95.low < 90);
  CHECK(rate.estimate.ci95.high > 110);
}

}  // namespace
}  // namespace dsanalyze
