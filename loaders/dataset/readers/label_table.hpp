#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/events.hpp"

namespace dsanalyze {

/// Labels of samples that carry numbers, as an index holds them.
struct LabelTable {
  std::vector<std::uint32_t> labels;  ///< of each sample
  std::vector<std::string> names;     ///< by label
  std::vector<Finding> findings;
};

/// The numbers stay as they are, and are named by the lines of `names_file` (where it is there and has enough of them) or by themselves. Samples
/// without a number have label 0. Where numbers are negative or above a million they are counted through in ascending order instead.
LabelTable make_label_table(std::span<const std::optional<std::int64_t>> numbers, const std::filesystem::path& names_file);

/// The name of the one label of samples that have none, and of files that lie in no class folder.
constexpr const char* no_class_name = ".";

}  // namespace dsanalyze
