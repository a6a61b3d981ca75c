#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert_output.hpp"
#include "core/index.hpp"

namespace dsanalyze {

/// Whether samples carry labels: more than the one that stands for none.
bool has_labels(const DatasetIndex& index);

/// The folder of each label, so that a reader of the folders (number_labels()) gives every label the number that it has.
struct ClassFolders {
  std::vector<std::string> names;  ///< by label; "" is the root; empty where samples carry no labels
  bool are_numbered = false;       ///< names alone would not keep the numbers: they come behind the label's number
};
/// `sample_names` are the samples' own, by id; empty ones are left out. Throws Error where classes without
/// samples would take far more folders than there are samples.
ClassFolders class_folders(const DatasetIndex& index, const std::vector<std::string>& sample_names);

/// A relative path that stays below where it begins and is not hidden: "." and empty parts are dropped, a part's leading dot becomes "_". Empty when
/// it is absolute or climbs up.
std::string clean_path(std::string_view path);

/// What is written to a folder.
struct FolderNames {
  std::vector<std::string> samples;  ///< label's folder, then the sample's own path; empty for those that are left out
  std::vector<std::string> classes;  ///< the labels' folders, those without samples too
};
/// Throws Error where two samples had one name.
FolderNames folder_names(const DatasetIndex& index, ConvertRun& run);
/// What each sample is called in tar shards: KEY.EXTENSION, where no two keys are the same.
std::vector<std::string> member_names(const DatasetIndex& index, ConvertRun& run);

}  // namespace dsanalyze
