#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "command.hpp"
#include "core/records/result.hpp"
#include "profile/profiler.hpp"
#include "report/report.hpp"

namespace dsanalyze::cli {

// Profiles that were not given a place by -o: <user state>/profiles/profile-YYYYmmdd-HHMMSS[-n].json.

/// A name that is not taken yet, for a profile of this moment; the folder is made. Throws Error.
std::filesystem::path new_profile_path(std::time_t now);
/// The newest by name. Throws UsageError that says how to get one.
std::filesystem::path last_profile_path();

/// What a saved profile was made from, opened again on this machine. Throws UsageError when its dataset is not there, or no longer the same: by
/// names, sizes and labels, and by a sample of the contents where the profile has its digest.
ProfileInputs inputs_of(const ProfileResult& profile, const CommandContext& context);

/// The dataset "emulated:NAME[,samples=N]" of the settings; nullptr when theirs is a path.
std::shared_ptr<const DatasetIndex> open_emulated_dataset(const ProfileSettings& settings);

/// A profile, which lies or will lie in `file`, with what the models say of it; where its rates do not suffice for them, without.
ReportInput report_input(const std::string& label, const std::string& file, ProfileResult profile);

/// Reads records of any kind that can be reported, by their schema. Labels are the files' names, or their paths where names are the same. Throws
/// Error for files that cannot be read and UsageError for those that hold something else, or results of several kinds. The curves of profiles take
/// seconds where many workers are moved.
std::vector<ReportInput> read_report_inputs(const std::vector<std::filesystem::path>& files, bool with_curves);

/// reports/html and Chart.js, as they were when the program was built.
HtmlAssets report_assets();

}  // namespace dsanalyze::cli
