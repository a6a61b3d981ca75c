#include "base/counters.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace dsanalyze;

TEST_CASE("a stage counter gives what was added to it") {
  StageCounter counter;
  counter.add(2, 300, 40);
  counter.add(1, 100, 5);
  counter.add_failure();
  counter.add_waiting(7);
  const StageTotals totals = counter.totals();
  CHECK(totals.samples == 3);
  CHECK(totals.bytes == 400);
  CHECK(totals.failures == 1);
  CHECK(totals.busy == 45);
  CHECK(totals.waiting == 7);
}

TEST_CASE("totals add field by field") {
  StageTotals sum{1, 2, 3, 4, 5};
  sum += StageTotals{10, 20, 30, 40, 50};
  CHECK(sum.samples == 11);
  CHECK(sum.bytes == 22);
  CHECK(sum.failures == 33);
  CHECK(sum.busy == 44);
  CHECK(sum.waiting == 55);
}

TEST_CASE("a reader sees a counter only grow while its thread writes") {
  StageCounter counter;
  constexpr std::uint64_t rounds = 20'000;
  std::thread writer([&] {
    for (std::uint64_t round = 0; round < rounds; ++round) counter.add(1, 2, 3);
  });
  bool grew = true;
  for (std::uint64_t last = 0; last < rounds;) {
    const std::uint64_t now = counter.totals().samples;
    grew = grew && now >= last;
    last = now;
  }
  writer.join();
  CHECK(grew);
  CHECK(counter.totals().bytes == 2 * rounds);
}
