#pragma once

#include "attach/launch.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// What makes a launched training's rates doubtful, and what its user should know; takes the result's trust where a rate cannot be believed.
void find_attached_problems(const LaunchedTraining& launched, AttachMode mode, ProfileResult& result);

}  // namespace dsanalyze
