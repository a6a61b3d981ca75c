#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dsanalyze {

/// What a dataset's path stands for: a folder, one file, or the files of a brace range.
struct DatasetSource {
  std::filesystem::path root;      ///< canonical; paths of files are relative to it
  std::string name;                ///< absolute path of the file or range; empty for a folder
  std::vector<std::string> files;  ///< empty for a folder

  [[nodiscard]] bool is_folder() const { return name.empty(); }
  /// What tells this dataset from others: an index belongs to it.
  [[nodiscard]] std::string identity() const { return is_folder() ? root.string() : name; }
};

/// Throws Error that says what is missing: the path, files of the range (how many, which first); or what it is if neither folder nor file.
DatasetSource find_source(const std::filesystem::path& given);

/// Absolute and without links, as far as it exists: the same however the path is written.
std::string absolute_name(const std::filesystem::path& given);

}  // namespace dsanalyze
