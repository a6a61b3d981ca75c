#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "loaders/dataset/readers/file_window.hpp"

namespace dsanalyze {

// What an index depends on. Each reader declares it while it reads; the user of the index asks afterwards what changed.

/// The file that is read through `window`, for Facts::files.
DatasetIndex::Facts::File facts_of(const std::string& file, const FileWindow& window);
/// The index depends on whether there is such a file, and on what it is. Returns whether there is.
bool depend_on(DatasetIndex::Facts& facts, const std::string& file);

/// What is not as it was when the index was made.
struct IndexChanges {
  std::vector<std::string> folders;
  std::vector<std::string> files;  ///< changed, gone, or there where there was none
  [[nodiscard]] bool none() const { return folders.empty() && files.empty(); }
};
/// Asks for the folders and files that the index depends on; a file for one stat(2) each. Throws Interrupted on a stop.
IndexChanges changes_since(const DatasetIndex& index, int threads, const std::stop_token& stop);

}  // namespace dsanalyze
