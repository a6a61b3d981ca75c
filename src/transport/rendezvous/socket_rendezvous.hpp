#pragma once

#include <stop_token>
#include <string_view>

#include "rendezvous.hpp"

namespace dsanalyze {

// Meeting at HOST:PORT, where rank 0 listens.

constexpr double prove_seconds = 2;
/// Connections that have proved nothing yet, beside one for each rank; a further one takes the place of the oldest of the source that has most.
constexpr std::size_t most_strangers = 256;

Roster meet_at_port_as_rank_zero(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop);
Roster meet_at_port_as_member(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop);

}  // namespace dsanalyze
