#pragma once

#include "attach/launch.hpp"
#include "base/host/host.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

// What a launched training's record says of the machine and of who used it. Pure.

/// Those that took steps; the process that started them may have spoken, too.
int rank_count(const AttachedTraining& training);
HostRecord host_record(const HostFacts& host, const AttachedTraining& training);
/// Of the CPU time that the training may use, what other programs took in each phase; their names are those of the whole profile.
void take_others(const LaunchedTraining& launched, const HostFacts& host, ProfileResult& result);

}  // namespace dsanalyze
