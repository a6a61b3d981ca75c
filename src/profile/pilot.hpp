#pragma once

#include <cstdint>

#include "runs.hpp"

namespace dsanalyze {

/// Rough rates, samples/s, for choosing how much data the runs can take; never reported.
struct PilotRates {
  double storage = 0;
  double prep = 0;
  double training = 0;  ///< of all accelerators; infinite without
};
/// Known figures of emulated devices; a second or two of real reading and decoding otherwise.
PilotRates run_pilot(RunContext& context, double seconds);
/// The same run on a few samples: spread evenly over the dataset, or neighbours where the order reads neighbours one after another. Its findings are
/// not reported.
RunContext pilot_context(const RunContext& context);

/// How long each run may take.
struct TimeShares {
  double pilot = 0, servers = 0, fetch = 0, curve = 0, filling = 0, prep = 0, cache = 0, fewer_cores = 0, synthetic = 0, transfer = 0, cached = 0,
         full = 0;
};
TimeShares share_time(const ProfileInputs& inputs, const ProfilePlan& plan);

/// Samples of the subset: what the cold epochs of the full run and the filling of the cache can get through in their time, within the plan's bound.
std::uint64_t choose_subset(const ProfileInputs& inputs, const ProfilePlan& plan, const PilotRates& rates, const TimeShares& shares);

/// So many samples of the dataset: at random, or neighbours where the order reads neighbours one after another.
std::shared_ptr<const DatasetIndex> draw_subset(const ProfileInputs& inputs, std::uint64_t samples);

}  // namespace dsanalyze
