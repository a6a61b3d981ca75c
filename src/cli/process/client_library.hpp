#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dsanalyze::cli {

/// Where libdsanalyze may lie for the program at this path: beside it where both were built, and where both are installed, wherever that was moved
/// to.
std::vector<std::filesystem::path> client_library_places(const std::filesystem::path& program);
/// The first place that has it.
std::optional<std::filesystem::path> find_client_library(std::span<const std::filesystem::path> places);

/// "NAME=value" each: what a program needs in its environment to load the library: DSANALYZE_LIBRARY, its path, and LD_LIBRARY_PATH with its folder,
/// unless the loader looks there anyway. What the environment says already stays: a DSANALYZE_LIBRARY as it is, and the folders that it names come
/// first.
std::vector<std::string> library_environment(const std::filesystem::path& library,
                                             const std::function<std::optional<std::string>(const std::string& name)>& environment);

}  // namespace dsanalyze::cli
