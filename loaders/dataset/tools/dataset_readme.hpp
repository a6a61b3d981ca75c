#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "photograph_files.hpp"

namespace dsanalyze {

/// The README's first line: tells a folder that we made from one that we must not touch, and what its samples are a function of.
std::string readme_marker(const std::string& preset, std::uint64_t seed, const std::string& photographs_digest);

/// Photographs with authors and licences, what was done to them, and the command that made the dataset.
std::string readme_text(const MakeOptions& options, const Photographs& photographs);

enum class FolderState { fresh, ours };
/// Whether samples may go into `folder`: it is empty (or not there), or holds samples of the same preset, seed and photographs.
/// Throws Error that says what else is there.
FolderState check_folder(const std::filesystem::path& folder, const std::string& marker);

}  // namespace dsanalyze
