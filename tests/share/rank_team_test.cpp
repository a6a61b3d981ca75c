#include "dsanalyze/share/rank_team.hpp"

#include <doctest/doctest.h>

#include <future>
#include <set>
#include <thread>

#include "../transport/ranks_fixture.hpp"
#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

using Teams = std::vector<std::unique_ptr<RankTeam>>;

Teams teams_of(std::uint32_t world) {
  std::vector<Listener> listeners(world);
  std::vector<std::string> addresses;
  for (const Listener& listener : listeners) addresses.push_back(listener.address());
  std::vector<std::future<std::unique_ptr<Ranks>>> joining;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    joining.push_back(std::async(std::launch::async, [rank, world, addresses, &listener = listeners[rank]] {
      return join_ranks(std::move(listener), test::facts_of(rank, world), addresses, system_timing());
    }));
  }
  Teams teams;
  for (auto& ranks : joining) teams.push_back(std::make_unique<RankTeam>(ranks.get()));
  return teams;
}

RankTeam::Patience patient() { return {test::patience_seconds, {}, system_timing()}; }

/// Who told the result of a job in which `dying` are lost when they should tell it.
std::set<std::uint32_t> tellers(std::uint32_t world, const std::set<std::uint32_t>& dying) {
  Teams teams = teams_of(world);
  std::vector<char> told(world);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        RankTeam& team = *teams[rank];
        told[rank] = team.tells_result(AliveRanks(world), patient()) && !dying.contains(rank) ? 1 : 0;
        if (told[rank] != 0) team.told_result(patient());
        teams[rank].reset();
      });
    }
  }
  std::set<std::uint32_t> all;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    if (told[rank] != 0) all.insert(rank);
  }
  return all;
}

}  // namespace

TEST_CASE("one rank tells the result: the lowest, or the next where that is lost before it has") {
  CHECK(tellers(1, {}) == std::set<std::uint32_t>{0});
  CHECK(tellers(3, {}) == std::set<std::uint32_t>{0});
  CHECK(tellers(3, {0}) == std::set<std::uint32_t>{1});
  CHECK(tellers(4, {0, 1, 2}) == std::set<std::uint32_t>{3});
}

TEST_CASE("a rank that waits for another to tell the result can be interrupted, and gives up in time") {
  Teams teams = teams_of(2);
  CHECK(!teams[1]->tells_result(AliveRanks(2), {0.01, {}, system_timing()}));
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(teams[1]->tells_result(AliveRanks(2), {test::patience_seconds, stop.get_token(), system_timing()}), Interrupted);
  std::jthread leaving([&] { teams[0].reset(); });
  teams[1].reset();
}

}  // namespace dsanalyze
