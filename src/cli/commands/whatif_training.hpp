#pragma once

#include <string>

#include "command.hpp"
#include "core/records/result.hpp"

namespace dsanalyze::cli {

/// `whatif` on the profile of a launched training, which lies in `name`. Throws UsageError for what such a profile cannot answer, with the reason.
Outcome whatif_of_training(const ProfileResult& profile, const std::string& name, const CommandContext& context);

/// Adds `fix` and `advice` to such a profile, which will lie in `place` (empty: among the saved ones, the last). Nothing where the models find none,
/// or the rates do not suffice for them.
void advise_training(ProfileResult& profile, const std::string& place);

}  // namespace dsanalyze::cli
