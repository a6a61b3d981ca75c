#pragma once

#include <stop_token>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/base/events.hpp"
#include "dsanalyze/core/whatif_result.hpp"
#include "dsanalyze/profile/profiler.hpp"

namespace dsanalyze {

struct ValidationOptions {
  double seconds = 0;  ///< of all runs together; 0: what each needs for three epochs of the subset after the first, 15 s at least
  /// Bounds on the absolute relative errors of the set-ups whose windows were not void; past them the predictions failed.
  double most_median_error = 0.02;
  double most_worst_error = 0.05;
};

/// Why this machine cannot run the set-up of an answer; empty when it can. Real storage can be made slower (a control group that limits reads), not
/// faster; real prep has the cores that this process may use.
std::string cannot_run(const ProfileInputs& base, const ProfileResult& profile, const WhatIfAnswer& answer);

/// Runs the set-up of every answer that this machine can run, over the profile's own subset, in a random order (by the profile's seed). Before and
/// after each, P is measured for some seconds: predictions are compared at the speed that prep had at that minute (Measured::speed), and as they
/// were made too. P at each number of cores tells what binds. Fills measured and not_measured of the answers, and the result's validation with its
/// outcome: passed; failed (errors past the bounds, or a wrong verdict); undecided (every window void, or nothing could be run). The simulator's
/// prediction counts where there is one. `base` are the inputs of the profile, its index opened again.
/// Throws Error when a run fails, Interrupted when asked to stop; control groups are left either way.
void validate(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options, EventSink& events,
              const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
