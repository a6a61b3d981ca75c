#pragma once

#include "attach/training.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// ProfileResult::script_costs: what the script did beside its training steps as it was found, from a hundredth of its time on. Pure.
void take_script_costs(const AttachedTraining& training, ProfileResult& result);

}  // namespace dsanalyze
