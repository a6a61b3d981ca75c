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
/// that are links), and Error when one of them cannot be written. Special files (/dev/null) may be named twice.
void check_outputs(std::span<const OutputFile> files);

}  // namespace dsanalyze::cli
