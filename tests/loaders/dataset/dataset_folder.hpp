#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "../../base/temporary_folder.hpp"
#include "base/error.hpp"
#include "base/events.hpp"

namespace dsanalyze::testing {

inline std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A folder "data" for a dataset, beside a cache directory that holds no one else's indexes.
class DatasetFolder : public TemporaryFolder {
 public:
  DatasetFolder() {
    std::filesystem::create_directories(root());
    ::setenv("XDG_CACHE_HOME", (path() / "cache").c_str(), 1);
  }
  DatasetFolder(const DatasetFolder&) = delete;
  DatasetFolder& operator=(const DatasetFolder&) = delete;
  DatasetFolder(DatasetFolder&&) = delete;
  DatasetFolder& operator=(DatasetFolder&&) = delete;
  ~DatasetFolder() { ::unsetenv("XDG_CACHE_HOME"); }

  [[nodiscard]] std::filesystem::path root() const { return path() / "data"; }
  /// Writes a file of the dataset.
  void add(const std::string& name, const std::string& content = "x") const { write("data/" + name, content); }
};

/// Keeps what it is told.
class KeptEvents : public EventSink {
 public:
  void progress(const Progress& progress) override {
    const std::scoped_lock lock(m_mutex);
    activities.push_back(progress.activity);
  }
  void note(const std::string& line) override {
    const std::scoped_lock lock(m_mutex);
    notes.push_back(line);
  }
  void finding(const Finding& finding) override {
    const std::scoped_lock lock(m_mutex);
    findings.push_back(finding);
  }

  std::vector<std::string> activities;
  std::vector<std::string> notes;
  std::vector<Finding> findings;

 private:
  std::mutex m_mutex;
};

/// The message of the Error that `work` throws; "" when it throws none.
template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace dsanalyze::testing
