#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsanalyze::cli {

/// Starts this program again as one job of a profile; it inherits the two descriptors (ProfileInputs::start_job). Throws Error.
std::int64_t start_job_process(int line, int report);

/// Whether the program was started so, and what came of it: its exit code.
std::optional<int> run_as_job_process(const std::vector<std::string>& arguments);

}  // namespace dsanalyze::cli
