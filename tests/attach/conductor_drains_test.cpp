#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "made_training.hpp"

// Which drains a conductor asks for, and how often.

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("numbers of workers whose rate is not sure are drained again, in turn, in the time that the phases leave") {
  const auto drained = [](double spread, const std::string& error, double seconds, std::uint64_t batches) {
    Training training;
    training.batches = batches;
    training.drains_in_time = true;
    training.drained_spread = spread;
    training.drained_error = error;
    Conductor conductor = made(seconds);
    const Nanoseconds begun = training.now;
    training.run(conductor);
    CHECK(conductor.finished());
    CHECK(conductor.training().drains.size() == 2);
    CHECK(to_seconds(training.now - begun) < 1.1 * seconds);
    return conductor.training();
  };
  const AttachedTraining unsure = drained(0.3, "", 120, 100'000);
  REQUIRE(unsure.further_drains.size() >= 2);
  CHECK(unsure.further_drains[0].workers == 2);
  CHECK(unsure.further_drains[1].workers == 1);
  const auto own = unsure.drains_of(2);
  CHECK(own.size() >= 2);
  CHECK(estimate_of_ratio(stretches_of(own)).windows > estimate_of_ratio(stretches_of(unsure.drains[0])).windows);
  CHECK(estimate_of_ratio(stretches_of(own)).value == doctest::Approx(6400).epsilon(0.1));
  CHECK(unsure.drains_of(3).empty());
  CHECK(drained(0, "", 120, 100'000).further_drains.empty());
  CHECK(drained(0.3, "RuntimeError: no more", 120, 100'000).further_drains.empty());
  CHECK_FALSE(drained(0.3, "", 120, 600).further_drains.empty());
}

TEST_CASE("once drains are repeated, no other number of workers is tried") {
  Training training;
  training.batches = 100'000;
  training.drains_in_time = true;
  training.drained_spread = 0.3;
  int drains = 0;
  training.drained_by_workers = [&](int workers) {
    ++drains;
    return drains > 3 ? 0.03 / workers : 0.03;  // From then on twice as many workers would be worth it.
  };
  Conductor conductor = made(120);
  training.run(conductor);
  const AttachedTraining& measured = conductor.training();
  CHECK(measured.drains.size() == 2);
  REQUIRE(measured.further_drains.size() >= 2);
  for (const DrainMeasurement& drain : measured.further_drains) CHECK(drain.workers <= 2);
}

TEST_CASE("more workers than planned are tried as long as they deliver more, and less than the training takes") {
  const auto tried = [](double batch_seconds_of_one, bool scales) {
    Training training;
    training.drained_by_workers = [=](int workers) { return scales ? batch_seconds_of_one / workers : batch_seconds_of_one; };
    Conductor conductor = made(60);
    training.run(conductor);
    std::vector<int> workers;
    for (const DrainMeasurement& drain : conductor.training().drains) workers.push_back(drain.workers);
    return workers;
  };
  // A step takes 4 ms.
  CHECK(tried(0.030, true) == std::vector<int>{2, 1, 4, 8});
  CHECK(tried(0.006, true) == std::vector<int>{2, 1});
  CHECK(tried(0.030, false) == std::vector<int>{2, 1});
}
