#pragma once

#include <vector>

#include "base/events.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze::cli {

/// What `profile` tells before it begins: the doctor's warnings about these inputs, as they were asked for.
std::vector<Finding> doctor_before_profile(const ProfileInputs& inputs, const ProfileSettings& asked);

}  // namespace dsanalyze::cli
