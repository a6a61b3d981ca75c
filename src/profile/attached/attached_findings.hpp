#pragma once

#include "attach/launch.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

constexpr Bytes negligible_bytes = Bytes{1} << 20;  ///< of storage
constexpr double tolerated_fraction = 0.01;         ///< of a run's bytes, from storage; of its steps, skipped
constexpr double tolerated_wait = 0.02;             ///< for storage, of a run's time

/// What makes a launched training's rates doubtful, and what its user should know; takes the result's trust where a rate cannot be believed.
void find_attached_problems(const LaunchedTraining& launched, AttachMode mode, ProfileResult& result);

}  // namespace dsanalyze
