#pragma once

#include <cstdint>

#include "runs.hpp"

namespace dsanalyze {

/// Rough rates, samples/s, for choosing how much data the runs can take; never reported.
struct PilotRates {
  double storage = 0;
  double prep = 0;
};
/// Known figures of emulated devices; a second or two of real reading and decoding otherwise.
PilotRates run_pilot(RunContext& context, double seconds);

/// How long each run may take.
struct TimeShares {
  double pilot = 0, fetch = 0, filling = 0, prep = 0, cache = 0, one_core = 0, synthetic = 0, cached = 0, full = 0;
};
TimeShares share_time(const ProfileInputs& inputs, const ProfilePlan& plan);

/// Samples of the subset: what the cold epochs of the full run and the filling of the cache can get through in their time, within the plan's bound.
std::uint64_t choose_subset(const ProfileInputs& inputs, const ProfilePlan& plan, const PilotRates& rates, const TimeShares& shares);

}  // namespace dsanalyze
