#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/path/path.hpp"

using namespace dsanalyze;

namespace {

Path constant_path(int workers, double cpu, double other, double step) {
  Path path;
  path.workers.count = workers;
  path.workers.cpu_seconds.value = cpu;
  path.workers.other_seconds.value = other;
  path.workers.scatter = 0;
  path.cores.count = 64;
  path.steps.samples = 16;
  path.steps.seconds.value = step;
  return path;
}

double path_rate_of(const Path& path, Pace pace = Pace::trains) { return run(path, 1, pace); }

}  // namespace

TEST_CASE("of constant times a path brings the lowest of F, P and G") {
  for (const double step : {0.001, 0.004, 0.016, 0.064, 0.256}) {
    for (const int workers : {1, 2, 3, 8}) {
      Path path = constant_path(workers, 0.0006, 0.0014, step);
      path.workers.prefetch = 4;
      const double prep = workers / 0.002;
      CHECK(path_rate_of(path) == doctest::Approx(std::min(prep, 16 / step)).epsilon(1e-6));
      CHECK(path_rate_of(path, Pace::drains) == doctest::Approx(prep).epsilon(1e-6));
      path.storage.curve = {{1, 1000}};
      path.storage.miss_fraction = 0.5;
      const double fetched = workers / (0.002 + 0.5 * workers / 1000);  // while all read; they do so in turns at best
      CHECK(path_rate_of(path) <= std::min({prep, 16 / step, 2000.0}) * (1 + 1e-6));
      CHECK(path_rate_of(path) >= std::min({fetched, 16 / step}) * (1 - 1e-6));
    }
  }
}

TEST_CASE("without workers preparing and training take turns") {
  const Path path = constant_path(0, 0.001, 0.001, 0.032);
  CHECK(path_rate_of(path) == doctest::Approx(16 / (0.032 + 0.032)));
}

TEST_CASE("workers that compute share the cores, and take turns where they are more") {
  for (const double cores : {1.0, 2.0, 3.0}) {
    Path path = constant_path(4, 0.002, 0, 0.0001);
    path.cores.count = cores;
    CHECK(path_rate_of(path, Pace::drains) == doctest::Approx(cores / 0.002).epsilon(0.001));
  }
  Path half = constant_path(4, 0.002, 0, 0.0001);
  half.cores.count = 1.5;
  CHECK(path_rate_of(half, Pace::drains) == doctest::Approx(750).epsilon(0.001));
  half.cores.count = 1e9;
  CHECK(path_rate_of(half, Pace::drains) == doctest::Approx(2000).epsilon(0.001));
  CHECK(path_rate_of({}, Pace::drains) > 1e300);  // Nothing takes any time.
}

TEST_CASE("a training that computes on the same cores takes its share of them, and what prep takes of it is contention") {
  Path path = constant_path(2, 0.002, 0, 0.016);
  path.cores.count = 2;
  path.steps.threads = 1;
  // A sample takes 2 ms of a worker and 1 ms of the training, on two cores.
  CHECK(path_rate_of(path) == doctest::Approx(2 / 0.003).epsilon(0.03));
  CHECK(path_rate_of(path, Pace::busy) < 0.75 * 16 / 0.016);
  path.cores.count = 3;
  CHECK(path_rate_of(path) == doctest::Approx(1000).epsilon(0.01));
}

TEST_CASE("handing over takes the training's own time") {
  Path path = constant_path(4, 0.001, 0, 0.032);
  path.handover = {0.003, 0.001};
  CHECK(path_rate_of(path) == doctest::Approx(16 / 0.036).epsilon(0.001));
  CHECK(path_rate_of(path, Pace::busy) == doctest::Approx(16 / 0.036).epsilon(0.001));
}

TEST_CASE("on a device the next batch is waited for while it computes") {
  Path path = constant_path(0, 0, 0.0015, 0.032);
  CHECK(path_rate_of(path) == doctest::Approx(16 / 0.056));
  path.steps.goes_ahead = true;
  CHECK(path_rate_of(path) == doctest::Approx(16 / 0.032).epsilon(0.001));
}

TEST_CASE("a device that serves one reader after the other supplies as much to any number of workers") {
  for (const int workers : {1, 2, 4}) {
    Path path = constant_path(workers, 0, 0.0001, 0.0001);
    path.storage.curve = {{1, 500}};
    path.storage.miss_fraction = 1;
    CHECK(path_rate_of(path, Pace::drains) == doctest::Approx(workers == 1 ? 1 / 0.0021 : 500).epsilon(0.03));
  }
  CHECK(supply({{1, 100}, {4, 200}}, 2) == doctest::Approx(150));
}

TEST_CASE("ranks train in step, each with workers of its own") {
  Path path = constant_path(2, 0, 0.002, 0.008);
  path.ranks = 3;
  CHECK(path_rate_of(path) == doctest::Approx(3 * 1000).epsilon(0.001));
}

TEST_CASE("equal paths bring equal outcomes, and other draws nearly so") {
  Path path = constant_path(3, 0.002, 0.001, 0.02);
  path.workers.scatter = 0.5;
  path.cores.count = 2;
  CHECK(run(path, 5) == run(path, 5));
  CHECK(run(path, 5) == doctest::Approx(run(path, 6)).epsilon(0.02));
}

TEST_CASE("a process that wakes beside one that has computed for longer than a slice has a core at once") {
  Path path = constant_path(1, 0.0001, 0.0009, 0.016);
  path.cores.count = 1;
  path.steps.threads = 1;
  const double alone = path_rate_of(path, Pace::drains);
  CHECK(alone == doctest::Approx(1000).epsilon(0.001));
  // A batch takes a worker 16 ms, of which it computes 1.6; a step computes for 16 ms.
  CHECK(path_rate_of(path) > 0.7 * alone);
  CHECK(path_rate_of(path) < 16 / 0.0176);
}

TEST_CASE("readers of a cgroup that Linux limits are as fast as measured") {
  // Processes that read 120 KiB of a fast disk for a part of their samples, and wait for the rest of each sample; measured over 12 s each
  // (Linux 6.18, tests/bench/attach/limited_reads.py).
  struct Limited {
    int workers;
    double other_seconds, misses, limit_mb_per_s, samples_per_s;
  };
  for (const Limited& each :
       {Limited{1, 0.002, 0.6, 32, 434.4}, {4, 0.008, 0.55, 32, 472.9}, {2, 0.004, 0.5, 28, 458.3}, {6, 0.012, 0.4, 24, 484.2}}) {
    CAPTURE(each.workers);
    Path path;
    path.workers = {each.workers, 2, 1, {}, {each.other_seconds, 0}, 0};
    path.cores.count = 64;
    path.steps.samples = 16;
    path.storage.curve = {{1, 2'500}, {64, 20'000}};
    path.storage.most = each.limit_mb_per_s * 1e6 / (120 * 1024);
    path.storage.miss_fraction = each.misses;
    CHECK(run(path, 1, Pace::drains) == doctest::Approx(each.samples_per_s).epsilon(0.06));
  }
}

TEST_CASE("more misses, and slower storage, are never faster") {
  const auto rate = [](double misses, double supplied) {
    Path path;
    path.workers = {4, 2, 1, {0.003, 0}, {0.001, 0}};
    path.cores.count = 2;
    path.steps.samples = 16;
    path.storage.curve = {{1, supplied}, {4, 2.5 * supplied}};
    path.storage.miss_fraction = misses;
    return run(path, 1, Pace::drains);
  };
  double last = 1e9;
  for (const double misses : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    CHECK(rate(misses, 200) < last * 1.01);
    last = rate(misses, 200);
  }
  CHECK(rate(0.5, 80) < rate(0.5, 300));
}

TEST_CASE("supply is read off its curve, over the logarithm of readers, and goes on as at its ends") {
  const std::vector<SupplyPoint> curve{{2, 100}, {8, 300}};
  CHECK(supply(curve, 4) == doctest::Approx(200));
  CHECK(supply(curve, 2) == doctest::Approx(100));
  CHECK(supply(curve, 100) == doctest::Approx(300));
  CHECK(supply(curve, 1) == doctest::Approx(50));
  CHECK(std::isinf(supply({}, 3)));
}

TEST_CASE("a process that seldom computes has a core at once beside many that rest now and then") {
  // Steps of 75 ms that compute for 20 us; four workers, which fill their places and rest, use 85 % of one core.
  Path path = constant_path(4, 0.004, 0, 0.075);
  path.cores = {1, slice_on(1)};
  path.workers.scatter = 0.5;
  path.steps.threads = 0.00027;
  CHECK(path_rate_of(path) > 0.97 * 16 / 0.075);
}
