#pragma once

#include <algorithm>
#include <optional>

#include "base/host/control_group.hpp"
#include "runs.hpp"

namespace dsanalyze {

/// Holds the kernel's page cache to what the user asked for while it exists (--memory-limit): the group's limit follows the process's own memory, so
/// that what is left for pages of files stays the same. What the process takes between two looks comes out of the page cache, so below `least` the
/// kernel might find nothing to evict and kill the process: less is not held. Nothing without a limit.
class PageCacheLimit {
 public:
  /// `to_come`: own memory that processes of the run take soon, for which room is held until settle(). Those that this one starts meanwhile are held
  /// with it. Throws Error where control groups are not permitted.
  explicit PageCacheLimit(RunContext& context, Bytes to_come = 0);
  /// Everybody has the memory that he works with.
  void settle() { m_to_come = 0; }
  /// To be called while the run goes on, as often as one likes: it looks ten times a second.
  void adjust(Nanoseconds now);
  /// The run is over: the process may take what memory it needs.
  void end();
  static constexpr Bytes least = Bytes{32} << 20;
  /// What a job takes beside its batch slots: stacks, buffers, the program.
  static constexpr Bytes of_a_job = Bytes{32} << 20;
  /// Page cache as seen last, what was asked for, and what is held at most; 0 without a limit.
  [[nodiscard]] Bytes held() const { return m_held; }
  [[nodiscard]] Bytes asked() const { return m_asked; }
  [[nodiscard]] Bytes target() const { return std::max(m_asked, least); }
  /// Says what was held; nothing without a limit.
  void report(RunContext& context) const;

 private:
  std::optional<MemoryGroup> m_group;
  bool m_was_active = false;
  Bytes m_to_come = 0;
  Bytes m_asked = 0;
  Bytes m_held = 0;
  Nanoseconds m_next_look = 0;
};

}  // namespace dsanalyze
