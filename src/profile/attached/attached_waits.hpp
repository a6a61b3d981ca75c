#pragma once

#include <span>

#include "attach/training.hpp"
#include "core/records/attached_record.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// The mean step of a phase in its parts, with what lies between its epochs; of several ranks, the mean of theirs, and each rank's own.
WaitsRecord waits_of(const PhaseMeasurement& phase);
/// The waits for a batch, one a step, of all ranks, seconds.
std::vector<double> data_waits(const std::map<int, std::vector<StepWindow>>& windows);

}  // namespace dsanalyze
