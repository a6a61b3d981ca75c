#pragma once

#include "attach/training.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// ProfileResult::hot and hot_main_threads: what the workers computed while the loader was drained, where they were looked at often enough; the parts
/// of 1 % and more. Threads: one at a time.
void take_hot_stages(const AttachedTraining& training, ProfileResult& result);

}  // namespace dsanalyze
