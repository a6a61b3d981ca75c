#include "ranks/rank_team.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "teams.hpp"

namespace dsanalyze {
namespace {

using test::Teams;
using test::teams_of;

RankTeam::Patience patient() { return {test::patience_seconds, {}, system_timing()}; }

/// When a rank is lost: before it could tell the result, or while it tells it.
enum class Lost : std::uint8_t { never, before, telling };

struct Told {
  std::set<std::uint32_t> by;       ///< ranks that told the result
  std::set<std::uint32_t> unknown;  ///< ranks that say that it is not known whether it was told
  std::set<std::uint32_t> left;     ///< of whom the one that told it knew
};

Told tell(const std::vector<Lost>& lost) {
  const auto world = static_cast<std::uint32_t>(lost.size());
  Teams teams = teams_of(world);
  Told told;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        RankTeam& team = *teams[rank];
        AliveRanks alive(world);
        try {
          if (lost[rank] != Lost::before && team.tells_result(alive, patient()) && lost[rank] != Lost::telling) {
            team.told_result(patient());
            const std::scoped_lock lock(mutex);
            told.by.insert(rank);
            for (std::uint32_t other = 0; other < world; ++other) {
              if (alive.alive(other)) told.left.insert(other);
            }
          }
        } catch (const Error&) {
          const std::scoped_lock lock(mutex);
          told.unknown.insert(rank);
        }
        teams[rank].reset();
      });
    }
  }
  return told;
}

using Some = std::set<std::uint32_t>;

}  // namespace

TEST_CASE("one rank tells the result: the lowest that is left, and it knows who was lost") {
  const Told alone = tell({Lost::never});
  CHECK(alone.by == Some{0});
  const Told all = tell({Lost::never, Lost::never, Lost::never});
  CHECK(all.by == Some{0});
  CHECK(all.left == Some{0, 1, 2});
  const Told without_first = tell({Lost::before, Lost::never, Lost::never});
  CHECK(without_first.by == Some{1});
  CHECK(without_first.left == Some{1, 2});
  CHECK(tell({Lost::before, Lost::before, Lost::before, Lost::never}).by == Some{3});
}

TEST_CASE("no other rank tells the result once one was to, even when that one is lost") {
  const Told first = tell({Lost::telling, Lost::never, Lost::never});
  CHECK(first.by.empty());
  CHECK(first.unknown == Some{1, 2});
  const Told second = tell({Lost::before, Lost::telling, Lost::never});
  CHECK(second.by.empty());
  CHECK(second.unknown == Some{2});
}

TEST_CASE("a rank that waits for another to tell the result can be interrupted, and gives up in time") {
  Teams teams = teams_of(2);
  AliveRanks alive(2);
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(teams[1]->tells_result(alive, {test::patience_seconds, stop.get_token(), system_timing()}), Interrupted);
  CHECK_THROWS_AS(teams[1]->tells_result(alive, {0.01, {}, system_timing()}), Error);
  std::jthread telling([&] {
    AliveRanks all(2);
    CHECK(teams[0]->tells_result(all, patient()));
  });
  CHECK(!teams[1]->tells_result(alive, {2, {}, system_timing()}));
  telling.join();
  std::jthread leaving([&] { teams[0].reset(); });
  teams[1].reset();
}

TEST_CASE("a value that ranks agree on is one line, and a long one differs wherever the whole does") {
  CHECK(agreed_line("crop 224") == "crop 224");
  CHECK(agreed_line("a\nb").find('\n') == std::string::npos);
  const std::string long_text(5000, 'x');
  CHECK(agreed_line(long_text).size() < 200);
  CHECK(agreed_line(long_text) == agreed_line(long_text));
  CHECK(agreed_line(long_text + "1") != agreed_line(long_text + "2"));
  CHECK(agreed_line("1" + long_text) != agreed_line("2" + long_text));
}

}  // namespace dsanalyze
