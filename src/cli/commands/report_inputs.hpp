#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/report.hpp"

namespace dsanalyze::cli {

/// A profile, which lies or will lie in `file`, with what the models say of it; where its rates do not suffice for them, without.
ReportInput report_input(const std::string& label, const std::string& file, ProfileResult profile);

/// Reads records of any kind that can be reported, by their schema. Labels are the files' names, or their paths where names are the same. Throws
/// Error for files that cannot be read and UsageError for those that hold something else, or results of several kinds.
std::vector<ReportInput> read_report_inputs(const std::vector<std::filesystem::path>& files);

}  // namespace dsanalyze::cli
