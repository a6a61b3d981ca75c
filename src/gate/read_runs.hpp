#pragma once

#include <filesystem>
#include <vector>

namespace dsanalyze::gate {

/// The *.json files of a folder by name, hidden ones apart; not read. Throws UsageError when the folder cannot be read.
std::vector<std::filesystem::path> records_in(const std::filesystem::path& folder);

}  // namespace dsanalyze::gate
