#pragma once

#include <future>
#include <memory>
#include <vector>

#include "../transport/ranks_fixture.hpp"
#include "ranks/rank_team.hpp"

namespace dsanalyze::test {

using Teams = std::vector<std::unique_ptr<RankTeam>>;

/// The ranks of one job in one process, connected.
inline Teams teams_of(std::uint32_t world) {
  std::vector<Listener> listeners(world);
  std::vector<std::string> addresses;
  for (const Listener& listener : listeners) addresses.push_back(listener.address());
  std::vector<std::future<std::unique_ptr<Ranks>>> joining;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    joining.push_back(std::async(std::launch::async, [rank, world, addresses, &listener = listeners[rank]] {
      return join_ranks(std::move(listener), facts_of(rank, world), addresses, system_timing());
    }));
  }
  Teams teams;
  for (auto& ranks : joining) teams.push_back(std::make_unique<RankTeam>(ranks.get()));
  return teams;
}

}  // namespace dsanalyze::test
