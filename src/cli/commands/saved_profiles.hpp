#pragma once

#include <ctime>
#include <filesystem>
#include <string_view>

namespace dsanalyze::cli {

// Profiles that were not given a place by -o: <user state>/profiles/profile-YYYYmmdd-HHMMSS[-n].json.

/// A name that is not taken yet, for a profile of this moment; the folder is made. Throws Error.
std::filesystem::path new_profile_path(std::time_t now);
/// The newest by name. Throws UsageError that says how to get one.
std::filesystem::path last_profile_path();

}  // namespace dsanalyze::cli
