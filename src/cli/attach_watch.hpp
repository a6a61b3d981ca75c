#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "cli/commands/started_commands.hpp"

namespace dsanalyze::cli {

/// Notices commands that run on without having attached, each once: what hangs before it attaches keeps all others waiting. Threads: one.
class AttachWatch {
 public:
  static constexpr double after_first_seconds = 10;  ///< since the first job joined the group
  static constexpr double after_start_seconds = 30;  ///< since the commands were started, while no job has joined

  /// `command_line`: of all commands, as a shell has it.
  AttachWatch(std::string command_line, Nanoseconds started) : m_command_line(std::move(command_line)), m_started(started) {}

  enum class Joined { none, some };             ///< jobs of the group, whosever they are
  enum class FirstEpoch { waits_for, opened };  ///< it waits for all jobs
  /// What there is to say of these, which run and have not attached; empty when there is nothing new.
  std::string look(Nanoseconds now, Joined joined, FirstEpoch first_epoch, std::span<const StartedCommands::Running> unattached);

 private:
  std::string m_command_line;
  Nanoseconds m_started;
  std::optional<Nanoseconds> m_first_joined;
  std::set<int> m_told;
};

}  // namespace dsanalyze::cli
