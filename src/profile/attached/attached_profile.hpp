#pragma once

#include "attach/launch.hpp"
#include "base/host/host.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// The record of a launched training: rates, runs, waits, stalls, the bottleneck and the findings. Pure. Throws Error when nothing was measured.
ProfileResult attached_profile(const LaunchedTraining& launched, const LaunchSettings& settings, const HostFacts& host);

}  // namespace dsanalyze
