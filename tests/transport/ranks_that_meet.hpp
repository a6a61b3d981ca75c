#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../base/hurried_timing.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "transport/rendezvous/rendezvous.hpp"

namespace dsanalyze::testing {

inline Meeting rank_of(std::uint32_t rank, std::uint32_t world, double timeout_seconds = 60) {
  return {rank, world, "127.0.0.1:" + std::to_string(4000 + rank), {{"dataset digest", "0f3a"}, {"batch size", "64"}}, {}, timeout_seconds};
}

/// What a rank has of a meeting.
struct Met {
  std::optional<Roster> roster;
  std::string error;
  ErrorKind kind = ErrorKind::failed;
};

inline Met meet_at(const std::string& place, const Meeting& meeting, Timing timing = system_timing(), const std::stop_token& stop = {}) {
  try {
    return {meet(place, meeting, timing, stop), "", ErrorKind::failed};
  } catch (const Error& error) {
    return {std::nullopt, error.what(), error.kind()};
  }
}

/// All of them at once, a thread each.
inline std::vector<Met> meet_together(const std::string& place, const std::vector<Meeting>& meetings, Timing timing = system_timing()) {
  std::vector<Met> met(meetings.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    threads.emplace_back([&, i] { met[i] = meet_at(place, meetings[i], timing); });
  }
  threads.clear();
  return met;
}

inline std::vector<Meeting> all_ranks_of(std::uint32_t world, double timeout_seconds = 60) {
  std::vector<Meeting> meetings;
  for (std::uint32_t rank = 0; rank < world; ++rank) meetings.push_back(rank_of(rank, world, timeout_seconds));
  return meetings;
}

inline void give_key(std::vector<Meeting>& meetings, const SecretKey& key) {
  for (Meeting& meeting : meetings) meeting.key = key;
}

}  // namespace dsanalyze::testing
