#include <doctest/doctest.h>

#include <array>
#include <thread>
#include <vector>

#include "ranks_fixture.hpp"

namespace dsanalyze {
namespace {

using test::JobOfRanks;

TEST_CASE("Rounds of training go their way beside agreements and other rounds") {
  constexpr std::uint32_t world = 3;
  JobOfRanks job(world);
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    const std::jthread trains([&] {
      for (int step = 0; step < 200; ++step) {
        std::array<double, 2> values = {rank + 1.0, static_cast<double>(step)};
        CHECK(ranks.training().sum(values, test::in_good_time()).ok());
        CHECK(values == std::array<double, 2>{6, 3.0 * step});
      }
      CHECK(ranks.training().barrier(test::in_good_time()).ok());
      CHECK(ranks.training().world() == static_cast<int>(world));
    });
    for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
      CHECK(ranks.agree_alive(epoch, test::in_good_time()).ranks.size() == world);
      double one = 1;
      CHECK(ranks.collective().sum(std::span(&one, 1), test::in_good_time()).ok());
      CHECK(one == 3);
    }
  });
}

TEST_CASE("A death ends the training of all others, and an agreement on who is left does not begin it again") {
  JobOfRanks job(3);
  job.each([&](std::uint32_t, Ranks& ranks) { CHECK(ranks.training().barrier(test::in_good_time()).ok()); });
  job.end(2);
  job.each([&](std::uint32_t, Ranks& ranks) {
    CHECK(ranks.training().barrier(test::in_good_time()).code == StatusCode::io);
    CHECK(ranks.agree_alive(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{0, 1});
    CHECK(ranks.collective().barrier(test::in_good_time()).ok());
    CHECK(ranks.training().barrier(test::in_good_time()).code == StatusCode::io);
  });
}

TEST_CASE("Who is agreed on before the training begins trains") {
  JobOfRanks job(3);
  job.end(2);
  job.each([&](std::uint32_t, Ranks& ranks) {
    CHECK(ranks.agree_alive(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{0, 1});
    double one = 1;
    CHECK(ranks.training().sum(std::span(&one, 1), test::in_good_time()).ok());
    CHECK(one == 2);
  });
}

TEST_CASE("A round of training that waits ends when it is stopped") {
  JobOfRanks job(2);
  {
    const std::jthread waits([&] { CHECK(job[0].training().barrier(test::in_good_time()).code == StatusCode::cancelled); });
    job[0].stop_training();
  }
  CHECK(job[0].training().barrier(test::in_good_time()).code == StatusCode::cancelled);
}

}  // namespace
}  // namespace dsanalyze
