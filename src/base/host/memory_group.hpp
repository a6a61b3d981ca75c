#pragma once

#include <filesystem>
#include <memory>

#include "base/text/units.hpp"

namespace dsanalyze {

class ControlGroup;

/// A memory control group of this process's own, for holding the kernel's page cache to a size: pages that the process reads count to it, and beyond
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

}  // namespace dsanalyze
