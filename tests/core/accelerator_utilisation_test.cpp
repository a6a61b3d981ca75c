#include "core/accelerator_utilisation.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace dsanalyze;

namespace {

constexpr Nanoseconds millisecond = 1'000'000;

/// Steps of 10 samples that take 10 ms (1000 samples/s), each `wait` after the one before it, on so many accelerators in lockstep.
std::vector<AcceleratorBatch> lockstep(int steps, Nanoseconds wait, int accelerators) {
  std::vector<AcceleratorBatch> batches;
  Nanoseconds end = 5 * nanoseconds_per_second;
  for (int step = 0; step < steps; ++step) {
    const Nanoseconds begin = end + wait;
    end = begin + 10 * millisecond;
    for (int i = 0; i < accelerators; ++i) batches.push_back({begin, end, 10});
  }
  return batches;
}

}  // namespace

TEST_CASE("accelerators that never wait have a utilisation of 100 %") {
  for (const int accelerators : {1, 4}) {
    const auto au = mlperf_storage_au(lockstep(21, 0, accelerators), {static_cast<std::uint32_t>(accelerators), 10, 1000});
    REQUIRE(au.has_value());
    CHECK(au->value == doctest::Approx(100));
    CHECK(au->compute_seconds == doctest::Approx(0.2));
    CHECK(au->total_seconds == doctest::Approx(0.2));
    CHECK(au->steps == 20U * static_cast<unsigned>(accelerators));
    CHECK(au->accelerators == accelerators);
  }
}

TEST_CASE("utilisation is the ideal compute time over the running time, whatever caused the waits") {
  const auto au = mlperf_storage_au(lockstep(101, 30 * millisecond, 8), {8, 10, 1000});
  REQUIRE(au.has_value());
  CHECK(au->value == doctest::Approx(25));
  CHECK(au->compute_seconds == doctest::Approx(1));
  CHECK(au->total_seconds == doctest::Approx(4));
  CHECK(au->formula.find("8000 samples / 8 accelerators / batch_size 10 * computation_time 0.01 s") != std::string::npos);
}

TEST_CASE("a slow first step does not count, as the rules leave it out") {
  std::vector<AcceleratorBatch> batches = lockstep(11, 0, 1);
  batches.front().begin -= 100 * nanoseconds_per_second;
  CHECK(mlperf_storage_au(batches, {1, 10, 1000})->value == doctest::Approx(100));
}

TEST_CASE("of a batch that spans the end of the first step, only the part after it counts") {
  // Two accelerators out of step: B's first batch ends at 15 ms, when A is half way through its second.
  const std::vector<AcceleratorBatch> batches{{0, 10 * millisecond, 10},
                                              {5 * millisecond, 15 * millisecond, 10},
                                              {10 * millisecond, 20 * millisecond, 10},
                                              {15 * millisecond, 25 * millisecond, 10},
                                              {20 * millisecond, 25 * millisecond, 5}};
  const auto au = mlperf_storage_au(batches, {2, 10, 1000});
  REQUIRE(au.has_value());
  CHECK(au->total_seconds == doctest::Approx(0.010));
  CHECK(au->compute_seconds == doctest::Approx(0.010));
  CHECK(au->steps == 3);
}

TEST_CASE("without a second step there is no utilisation") {
  CHECK_FALSE(mlperf_storage_au({}, {1, 10, 1000}).has_value());
  CHECK_FALSE(mlperf_storage_au(lockstep(1, 0, 4), {4, 10, 1000}).has_value());
}

TEST_CASE("a group without accelerators, batch or rate is refused") {
  CHECK_THROWS_AS(mlperf_storage_au({}, {0, 10, 1000}), std::domain_error);
  CHECK_THROWS_AS(mlperf_storage_au({}, {1, 0, 1000}), std::domain_error);
  CHECK_THROWS_AS(mlperf_storage_au({}, {1, 10, 0}), std::domain_error);
}
