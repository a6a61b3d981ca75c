#pragma once

#include <functional>
#include <optional>

#include "processes.hpp"

namespace dsanalyze {

/// A started command: a child that leads a process group of its own. The group is ended with SIGKILL when this goes. Threads: one at a time.
class CommandGroup {
 public:
  /// `start` returns the leader, as spawn_command() does; from now on only this object collects it.
  explicit CommandGroup(const std::function<int()>& start);
  CommandGroup(const CommandGroup&) = delete;
  CommandGroup& operator=(const CommandGroup&) = delete;
  ~CommandGroup();

  [[nodiscard]] int leader() const { return m_leader; }
  /// To all of the group; nothing once it was finished.
  void signal(int number) const;
  /// Whether the leader has ended. Its number stays taken until finish(), so that signals reach no other process.
  [[nodiscard]] bool ended() const;
  /// Ends what is left of the group and collects the leader, once: how it ended, as waitpid() says it; nullopt where somebody else has collected it.
  std::optional<int> finish();

 private:
  std::optional<StartedGroup> m_started;  ///< until it is collected
  int m_leader;
};

}  // namespace dsanalyze
