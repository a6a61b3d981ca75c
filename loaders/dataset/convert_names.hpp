#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert_run.hpp"
#include "dsanalyze/core/index.hpp"

namespace dsanalyze {

/// A relative path that stays below where it begins and is not hidden: "." and empty parts are dropped, a part's leading dot becomes "_". Empty when
/// it is absolute or climbs up.
std::string clean_path(std::string_view path);

/// Whether samples carry labels: more than the one that stands for none.
bool has_labels(const DatasetIndex& index);

/// What each sample is called in a folder: label's folder, then its own path. Empty for those that are left out. Throws Error where two had one name.
std::vector<std::string> folder_names(const DatasetIndex& index, ConvertRun& run);
/// What each sample is called in tar shards: KEY.EXTENSION, where no two keys are the same.
std::vector<std::string> member_names(const DatasetIndex& index, ConvertRun& run);

}  // namespace dsanalyze
