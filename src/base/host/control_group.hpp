#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/text/units.hpp"

namespace dsanalyze {

/// A cgroup of this process's own, below the one that it is in: entered on construction with all threads, left and removed on destruction, which
/// moves what is still in it to the parent (2 s at most). One that a killed process left behind is empty; the next one of the same controller
/// removes it.
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

class ControlGroup;

/// A memory cgroup of this process's own, for holding the kernel's page cache to a size: pages that the process reads count to it, and beyond
/// the limit the kernel evicts. The process enters it on construction, with all its threads, and leaves it on destruction; memory that it had before
/// stays with the old group. A group that a killed process left behind is empty; the next one removes it.
/// Threads: construct and destroy on one; limit() and use() any.
class MemoryGroup {
 public:
  /// Throws Error where it is not permitted, with the way to do it from outside. `root` stands for "/" in tests.
  explicit MemoryGroup(const std::filesystem::path& root = "/");
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  /// What the group may hold: page cache, and the process's own memory from now on. Throws Error when the kernel refuses.
  void limit(Bytes bytes);
  struct Use {
    Bytes total = 0;
    Bytes page_cache = 0;  ///< of files; shared memory is not counted here
  };
  [[nodiscard]] Use use() const;

 private:
  std::unique_ptr<ControlGroup> m_group;
};

class ControlGroup;

/// A cgroup of this process's own in which its reads of one disk are limited, buffered, direct and by io_uring alike. The process enters it on
/// construction, with all its threads, and leaves it on destruction. Threads: construct and destroy on one.
class StorageGroup {
 public:
  /// Limits reads of the disk that `path` lies on. Throws Error where it is not permitted or the path lies on no disk (a network filesystem), with
  /// the way to do it from outside. `root` stands for "/" in tests.
  StorageGroup(const std::filesystem::path& path, double bytes_per_second, const std::filesystem::path& root = "/");
  ~StorageGroup();
  StorageGroup(const StorageGroup&) = delete;
  StorageGroup& operator=(const StorageGroup&) = delete;

 private:
  std::unique_ptr<ControlGroup> m_group;
};

/// "254:0" of the whole disk that holds the path's filesystem. Throws Error where there is none.
std::string disk_number_of(const std::filesystem::path& path, const std::filesystem::path& root = "/");

/// The group that this process is in, of one controller.
struct OwnControlGroup {
  int version = 0;
  std::filesystem::path folder;
};
std::optional<OwnControlGroup> own_control_group(const std::string& controller, const std::filesystem::path& root);

/// The value of `name` in a file of lines "name value"; 0 when it is not there.
Bytes cgroup_statistic(const std::filesystem::path& file, const std::string& name);

}  // namespace dsanalyze
