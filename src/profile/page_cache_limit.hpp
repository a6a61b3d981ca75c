#pragma once

#include <memory>
#include <optional>

#include "dsanalyze/base/memory_group.hpp"
#include "runs.hpp"

namespace dsanalyze {

/// Holds the kernel's page cache to what the user asked for while it exists (--memory-limit): the group's limit follows the process's own memory, so
/// that what is left for pages of files stays the same. Nothing without a limit.
class PageCacheLimit {
 public:
  /// Throws Error where control groups are not permitted.
  explicit PageCacheLimit(RunContext& context);
  /// To be called now and then while the run goes on.
  void adjust();
  /// Page cache held, at most and as seen last. 0 without a limit.
  [[nodiscard]] Bytes held() const { return m_held; }
  [[nodiscard]] Bytes target() const { return m_target; }
  [[nodiscard]] bool active() const { return m_group.has_value(); }

 private:
  std::optional<MemoryGroup> m_group;
  Bytes m_target = 0;
  Bytes m_held = 0;
};

}  // namespace dsanalyze
