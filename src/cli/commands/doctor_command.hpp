#pragma once

#include <memory>
#include <vector>

#include "command.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze::cli {

std::unique_ptr<Command> make_doctor_command();

/// What `profile` tells before it begins: the doctor's warnings about these inputs, as they were asked for.
std::vector<Finding> doctor_before_profile(const ProfileInputs& inputs, const ProfileSettings& asked);

}  // namespace dsanalyze::cli
