#pragma once

#include <string>
#include <vector>

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

}  // namespace dsanalyze
