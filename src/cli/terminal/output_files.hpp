#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace dsanalyze::cli {

/// A file that a command will write, and the option that named it.
struct OutputFile {
  std::string option;          ///< "--html"
  std::filesystem::path path;  ///< empty: the option was not given
};

/// Before the work: throws UsageError that names both options when two of them mean the same regular file, however it is spelt (links, "..", folders
/// that are links), or when one means an input, and Error when one of them cannot be written. Special files (/dev/null) may be named twice.
/// `inputs`: files that the command reads; a folder stands for every *.json in it, there already or not; what is not there is passed over.
void check_outputs(std::span<const OutputFile> files, std::span<const std::filesystem::path> inputs = {});

}  // namespace dsanalyze::cli
