#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "folder_listing.hpp"
#include "loaders/dataset/sample_choice.hpp"

namespace dsanalyze {

/// Labels by folder, as torchvision's ImageFolder numbers them.
struct FolderLabels {
  std::vector<std::uint32_t> of_folder;  ///< for each listed folder
  std::vector<std::string> names;        ///< by label
  std::vector<Finding> findings;         ///< classes without samples, files beside the class folders
};

/// The label of a folder is the number of its first-level folder, in byte order of their names; those without samples count too, so that numbers do
/// not depend on which samples are there. The root's own files have the label behind the classes. Where no class folder holds samples there are no
/// classes.
FolderLabels number_labels(const std::vector<ListedFolder>& listing, const SampleChoice& choice);

}  // namespace dsanalyze
