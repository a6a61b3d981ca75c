#include "profile/pilot.hpp"

#include <doctest/doctest.h>

namespace dsanalyze {
namespace {

TimeShares shares_of_100_seconds() {
  TimeShares::Weights weights{};
  weights[static_cast<std::size_t>(TimedRun::fetch)] = 20;
  weights[static_cast<std::size_t>(TimedRun::prep)] = 30;
  weights[static_cast<std::size_t>(TimedRun::full)] = 40;
  return {weights, 90, 100};
}

}  // namespace

TEST_CASE("runs have their planned time while those before them keep theirs") {
  const TimeShares shares = shares_of_100_seconds();
  CHECK(shares.seconds(TimedRun::fetch, 0) == doctest::Approx(20));
  CHECK(shares.seconds(TimedRun::prep, 20) == doctest::Approx(30));
  CHECK(shares.seconds(TimedRun::full, 50) == doctest::Approx(40));
  CHECK(shares.seconds(TimedRun::cached, 0) == 0);
}

TEST_CASE("time that a run saved makes no other one longer") { CHECK(shares_of_100_seconds().seconds(TimedRun::prep, 1) == doctest::Approx(30)); }

TEST_CASE("what a run took too much is taken back from all that come, so that the last one has its part") {
  const TimeShares shares = shares_of_100_seconds();
  // fetch took 65 s of 20: 35 s are left for runs that were to have 70.
  CHECK(shares.seconds(TimedRun::prep, 65) == doctest::Approx(15));
  CHECK(shares.seconds(TimedRun::full, 80) == doctest::Approx(20));
  CHECK(shares.left(TimedRun::full, 100) == 0);
}

TEST_CASE("a run has what a rate needs, however late it is, or its planned time where that is less") {
  CHECK(shares_of_100_seconds().seconds(TimedRun::full, 1000) == doctest::Approx(0.8));
  TimeShares::Weights weights{};
  weights[static_cast<std::size_t>(TimedRun::cache)] = 1;
  CHECK(TimeShares(weights, 0.1, 1).seconds(TimedRun::cache, 5) == doctest::Approx(0.1));
}

}  // namespace dsanalyze
