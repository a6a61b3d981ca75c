#pragma once

#include <memory>

#include "command.hpp"
#include "core/records/result.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze::cli {

/// What a saved profile was made from, opened again on this machine. Throws UsageError when its dataset is not there, or no longer the same: by
/// names, sizes and labels, and by a sample of the contents where the profile has its digest.
ProfileInputs inputs_of(const ProfileResult& profile, const CommandContext& context);

/// The dataset "emulated:NAME[,samples=N]" of the settings; nullptr when theirs is a path.
std::shared_ptr<const DatasetIndex> open_emulated_dataset(const ProfileSettings& settings);

}  // namespace dsanalyze::cli
