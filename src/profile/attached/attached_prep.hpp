#pragma once

#include <optional>

#include "attach/launch.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// Of the bytes that the loader read of data while it was drained, the fraction that the pass before, which brings them into memory, had read.
/// Nothing where the tracer did not see both.
std::optional<double> read_before(const LaunchedTraining& launched, const DrainMeasurement& drain);

/// P of the loader's drains: ProfileResult::prep, prep_by_workers and the run "prep". What a stream reads from storage once it is begun again, other
/// than it read before, is not prep's: then P is left out, and the finding prep-not-separable says so.
void take_drains(const LaunchedTraining& launched, ProfileResult& result);

/// Whether P was left out so, and with it what a run with the data in memory would give.
bool is_prep_left_out(const ProfileResult& result);

}  // namespace dsanalyze
