#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/records/whatif_result.hpp"
#include "epoch_simulator.hpp"

namespace dsanalyze {

/// The settings with which the configuration of an answer is run, from those of its profile. Storage that is real stays as it is: what the answer
/// makes of it is the caller's to bring about. `why_not` says why a loader of one job on one server cannot be it (several jobs, servers, reads of
/// another size, a part of a core); the settings are then of no use.
struct ChangedSettings {
  ProfileSettings settings;
  std::string why_not;
};
ChangedSettings changed_settings(const ProfileResult& profile, const WhatIfAnswer& answer);

/// The configuration of an answer for the epoch simulator: `samples` of the dataset, sizes, requests and prep as distributed in the profile and
/// scaled so that their means give the answer's S and P, P less what the CPU does for real reads (of the run "fetch"); queues as the loader has them;
/// accelerators as many and as fast as the answer's. nullopt for what changed_settings() refuses, and for caches that the simulator has no policy of.
std::optional<EpochSetup> simulated_setup(const ProfileResult& profile, const WhatIfAnswer& answer, std::uint32_t samples);

/// What the simulator itself is off by, beside the errors of the rates: half of a 95 % interval as a share. Real prep differs by more from
/// one run to the next than the emulated kind, which only waits (docs/predictor.md).
constexpr double simulator_error = 0.01;
constexpr double real_run_error = 0.02;

/// The answer, had prep been so many times as fast as in the profile: P, what follows from it by the bottleneck rule, and the simulator's view.
WhatIfAnswer at_prep_speed(const ProfileResult& profile, const WhatIfAnswer& answer, double factor);

/// Adds to every answer what the epoch simulator says of it, over the profile's subset, with its interval: that of the closed form's answer, as
/// a share, and the simulator's own. `progress` may be empty, and may throw to end it. Pure but for that. Finding: simulator-disagrees, above
/// notable_difference, with the reason.
void simulate_answers(const ProfileResult& profile, WhatIfResult& result, const std::function<void(double done)>& progress);

}  // namespace dsanalyze
