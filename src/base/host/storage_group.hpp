#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace dsanalyze {

class ControlGroup;

/// A control group of this process's own in which its reads of one disk are limited, buffered, direct and by io_uring alike. The process enters it on
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

}  // namespace dsanalyze
