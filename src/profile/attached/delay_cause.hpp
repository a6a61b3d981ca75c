#pragma once

#include "attach/training.hpp"
#include "core/records/attached_record.hpp"

namespace dsanalyze {

/// The CPUs of each rank, and why `waits.delaying_rank` takes longer than the others, where that shows in what the system counts. Pure.
void take_delay_cause(const AttachedTraining& training, WaitsRecord& waits);

/// "0-3,8" of rising numbers.
std::string cpus_text(const std::vector<int>& cpus);

}  // namespace dsanalyze
