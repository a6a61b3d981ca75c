#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "dataset_folder.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::testing {

/// The index of the dataset at `path`, which must be one.
inline std::shared_ptr<const DatasetIndex> open_index(const std::filesystem::path& path, const OpenOptions& options = {}) {
  return open_dataset(path, options, null_events(), {});
}
inline std::shared_ptr<const DatasetIndex> open_index(const DatasetFolder& folder, const OpenOptions& options = {}) {
  return open_index(folder.root(), options);
}

/// Why what is at `path` cannot be opened; "" when it can.
inline std::string open_error(const std::filesystem::path& path) {
  return error_of([&] { open_index(path); });
}
inline std::string open_error(const DatasetFolder& folder, const std::string& below = "") { return open_error(folder.root() / below); }

}  // namespace dsanalyze::testing
