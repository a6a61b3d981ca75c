#pragma once

#include <optional>
#include <string>
#include <vector>

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

/// The configuration of an answer for the epoch simulator: samples of the profile's subset, sizes, requests and prep as distributed in the profile
/// and scaled so that their means give the answer's S and P, P less what the CPU does for real reads (of the run "fetch"); queues as the loader has
/// them; accelerators as many and as fast as the answer's. nullopt for what changed_settings() refuses, and for caches that the simulator has no
/// policy of.
std::optional<EpochSetup> simulated_setup(const ProfileResult& profile, const WhatIfAnswer& answer);

/// What the simulator itself is off by, beside the errors of the rates: half of a 95 % interval as a share. Real prep differs by more from
/// one run to the next than the emulated kind, which only waits (docs/predictor.md).
constexpr double simulator_error = 0.01;
constexpr double real_run_error = 0.02;

/// Moves the samples of an answer, of which F, P, G and their lowest are known, through the loader by the epoch simulator: samples/s, bottleneck,
/// stalls and waits are then those; the interval is what it was, as a share, and the simulator's own. As it was where simulated_setup() has nothing.
/// Pure; 10 to 50 ms.
void simulate(const ProfileResult& profile, WhatIfAnswer& answer);

/// The answer, had prep been so many times as fast as in the profile.
WhatIfAnswer at_prep_speed(const ProfileResult& profile, const WhatIfAnswer& answer, double factor);

/// below-the-rates: answers that differ from min(F, P, G) by more than notable_difference, and why. Pure.
std::optional<Finding> below_rates_finding(const ProfileResult& profile, const std::vector<WhatIfAnswer>& answers);

}  // namespace dsanalyze
