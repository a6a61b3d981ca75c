#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "folder_listing.hpp"
#include "loaders/dataset/sample_choice.hpp"

namespace dsanalyze {

/// What a sample carries as its label.
struct SampleLabel {
  enum class Kind : std::uint8_t {
    absent,
    number,
    invalid,  ///< there, but no class
    cut_off   ///< where the file is torn; the torn file is what is reported
  };
  Kind kind = Kind::absent;
  std::uint32_t number = 0;

  /// A number from 0 to 2147483647, the labels that every framework can take; anything else is invalid.
  static SampleLabel of(std::optional<std::int64_t> value);
};

/// Labels of samples that carry numbers, as an index holds them.
struct LabelTable {
  std::vector<std::uint32_t> labels;  ///< of each sample, or IndexRecord::no_label
  std::vector<std::string> names;     ///< by label
  std::vector<Finding> findings;
};

/// The numbers stay as they are, and are named by the lines of `names_file` (where it is there and has enough of them) or by themselves. Where no
/// sample carries a label, all have label 0; where others do, a sample without a number has none. Where numbers are above a million they are counted
/// through in ascending order instead.
LabelTable make_label_table(std::span<const SampleLabel> carried, const std::filesystem::path& names_file);

/// As make_label_table() for samples that carry no labels, or whose labels are not wanted.
LabelTable no_labels(std::size_t samples);

/// What a finding about samples without a valid label says last.
constexpr const char* way_without_labels = "pass --label-key none to train without labels";

/// The name of the one label of samples that have none, and of files that lie in no class folder.
constexpr const char* no_class_name = ".";

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
