#pragma once

#include <filesystem>
#include <string>

namespace dsanalyze {

/// A control group of this process's own, below the one that it is in: entered on construction with all threads, left and removed on destruction. One
/// that a killed process left behind is empty; the next one of the same controller removes it.
class ControlGroup {
 public:
  /// What the group is for, in words of its errors: "the page cache cannot be limited here", "otherwise limit ... from outside".
  struct Purpose {
    std::string controller;  ///< of version 1: "memory", "blkio"; version 2's name: "memory", "io"
    std::string controller_v2;
    std::string file_v1, file_v2;  ///< there when the controller is
    std::string cannot;
    std::string from_outside;
  };
  /// Throws Error where it is not permitted. `root` stands for "/" in tests.
  ControlGroup(const Purpose& purpose, const std::filesystem::path& root);
  ~ControlGroup();
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  [[nodiscard]] int version() const { return m_version; }
  [[nodiscard]] const std::filesystem::path& folder() const { return m_group; }
  /// Writes a control file of the group in one call; the errno, or 0.
  [[nodiscard]] int write(const std::string& file, const std::string& text) const;

 private:
  int m_version = 0;
  std::filesystem::path m_parent;
  std::filesystem::path m_group;
};

}  // namespace dsanalyze
