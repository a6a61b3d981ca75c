#pragma once

#include <filesystem>

namespace dsanalyze::cli {

/// Where this program lies, links resolved; empty where the system does not say.
std::filesystem::path own_program();

}  // namespace dsanalyze::cli
