#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "trainer/trainer.hpp"

namespace dsanalyze {
namespace {

Batch batch_of(std::uint32_t count, Nanoseconds ready, std::uint32_t slices = 1) {
  Batch batch;
  batch.count = count;
  batch.slices = slices;
  batch.ready_at = ready;
  return batch;
}

std::vector<BatchCompletion> reap_all(Trainer& trainer, ManualTiming& time) {
  std::array<BatchCompletion, 16> done;
  const std::size_t count = trainer.reap(done, {time.now() + 1000 * nanoseconds_per_second});
  return {done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST_CASE("emulated accelerators ingest at their nominal rate within 1 %, for steps from 2 ms to 1 s, 1 and 8 of them") {
  for (const double step_seconds : {0.002, 0.05, 1.0}) {
    for (const std::uint32_t accelerators : {1U, 8U}) {
      for (const StepMode mode : {StepMode::lockstep, StepMode::independent}) {
        ManualTiming time;
        time.advance(nanoseconds_per_second);
        std::vector<DeviceLane> lanes(accelerators);
        const double rate = 64 / step_seconds;
        auto trainer = make_emulated_trainer({accelerators, rate, mode}, lanes, time.timing());
        const Nanoseconds begun = time.now();
        std::uint64_t samples = 0;
        for (int step = 0; step < 100; ++step) {
          while (trainer->wants_batch()) REQUIRE(trainer->submit(batch_of(64, begun, mode == StepMode::lockstep ? accelerators : 1)).ok());
          for (const auto& done : reap_all(*trainer, time)) samples += done.samples;
        }
        const double measured = static_cast<double>(samples) / to_seconds(time.now() - begun);
        CHECK(measured == doctest::Approx(rate * accelerators).epsilon(0.01));
      }
    }
  }
}

TEST_CASE("ends follow end(k) = max(end(k-1), ready(k)) + t under injected stalls: time lost is never caught up") {
  ManualTiming time;
  time.advance(nanoseconds_per_second);
  std::vector<DeviceLane> lanes(1);
  auto trainer = make_emulated_trainer({1, 1000, StepMode::lockstep}, lanes, time.timing());
  RandomStream random(11);
  const Nanoseconds step = to_nanoseconds(0.1);
  Nanoseconds end = 0, ready = time.now();
  for (int k = 0; k < 200; ++k) {
    ready += to_nanoseconds(random.uniform() < 0.2 ? 0.5 * random.uniform() : 0.05 * random.uniform());
    if (time.now() < ready) time.advance(ready - time.now());
    REQUIRE(trainer->submit(batch_of(100, ready)).ok());
    const auto done = reap_all(*trainer, time);
    REQUIRE(done.size() == 1);
    const Nanoseconds expected = std::max(end, ready) + step;
    CHECK(done[0].end == expected);
    CHECK(done[0].stall == (k == 0 ? 0 : std::max<Nanoseconds>(ready - end, 0)));
    end = expected;
  }
}

TEST_CASE("a lockstep step starts with the last of its batches and lasts as long as the largest") {
  ManualTiming time;
  time.advance(nanoseconds_per_second);
  std::vector<DeviceLane> lanes(3);
  auto trainer = make_emulated_trainer({3, 100, StepMode::lockstep}, lanes, time.timing());
  const Nanoseconds now = time.now();
  CHECK(trainer->submit(batch_of(10, now, 3)).ok());
  CHECK(trainer->submit(batch_of(50, now + 7, 3)).ok());
  CHECK(trainer->submit(batch_of(20, now + 3, 3)).ok());
  CHECK_FALSE(trainer->wants_batch());
  CHECK(trainer->submit(batch_of(20, now, 3)).code == StatusCode::busy);
  const auto done = reap_all(*trainer, time);
  REQUIRE(done.size() == 3);
  for (const auto& completion : done) CHECK(completion.end == now + 7 + to_nanoseconds(0.5));
}

TEST_CASE("the short last step of an epoch with fewer parts than accelerators runs all the same") {
  ManualTiming time;
  std::vector<DeviceLane> lanes(8);
  auto trainer = make_emulated_trainer({8, 100, StepMode::lockstep}, lanes, time.timing());
  CHECK(trainer->submit(batch_of(1, 0, 2)).ok());
  CHECK(trainer->submit(batch_of(1, 0, 2)).ok());
  CHECK(reap_all(*trainer, time).size() == 2);
}

TEST_CASE("independent accelerators take batches as they become free, each at its own pace") {
  ManualTiming time;
  time.advance(nanoseconds_per_second);
  std::vector<DeviceLane> lanes(2);
  auto trainer = make_emulated_trainer({2, 100, StepMode::independent}, lanes, time.timing());
  const Nanoseconds now = time.now();
  CHECK(trainer->submit(batch_of(100, now)).ok());
  CHECK(trainer->submit(batch_of(10, now)).ok());
  CHECK_FALSE(trainer->wants_batch());
  auto done = reap_all(*trainer, time);
  REQUIRE(done.size() == 1);
  CHECK(done[0].end == now + to_nanoseconds(0.1));
  CHECK(trainer->wants_batch());
  CHECK(trainer->submit(batch_of(10, now)).ok());
  done = reap_all(*trainer, time);
  REQUIRE(done.size() == 1);
  CHECK(done[0].end == now + to_nanoseconds(0.2));
}

TEST_CASE("a null trainer is done at once; absurd accelerators are refused") {
  auto null = make_null_trainer();
  ManualTiming time;
  CHECK(null->submit(batch_of(5, 42)).ok());
  CHECK(null->submit(batch_of(5, 42)).code == StatusCode::busy);
  const auto done = reap_all(*null, time);
  REQUIRE(done.size() == 1);
  CHECK(done[0].end == 42);
  std::vector<DeviceLane> lanes(1);
  CHECK_THROWS_AS(make_emulated_trainer({0, 100, StepMode::lockstep}, lanes, time.timing()), UsageError);
  CHECK_THROWS_AS(make_emulated_trainer({1, 0, StepMode::lockstep}, lanes, time.timing()), UsageError);
  CHECK_THROWS_AS(make_emulated_trainer({2, 100, StepMode::lockstep}, lanes, time.timing()), UsageError);
}

TEST_CASE("a null trainer's batches end in the order that they came in, even if a later one was ready first") {
  auto null = make_null_trainer();
  ManualTiming time;
  std::vector<Nanoseconds> ends;
  for (const Nanoseconds ready : {50, 42, 60}) {
    REQUIRE(null->submit(batch_of(5, ready)).ok());
    ends.push_back(reap_all(*null, time).at(0).end);
  }
  CHECK(ends == std::vector<Nanoseconds>{50, 50, 60});
}

}  // namespace
}  // namespace dsanalyze
