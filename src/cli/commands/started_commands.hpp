#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/process/command_group.hpp"
#include "base/process/spawn.hpp"
#include "core/records/share_result.hpp"
#include "share/group.hpp"

namespace dsanalyze::cli {

/// One command, started several times side by side, each in a process group of its own with nothing on stdin. A group ends with its leader. Threads:
/// one.
class StartedCommands {
 public:
  /// `words`: the program, looked up in PATH, and its arguments.
  StartedCommands(std::vector<std::string> words, SpawnWay::Output output) : m_words(std::move(words)), m_output(output) {}
  ~StartedCommands() = default;  ///< Kills what still runs.
  StartedCommands(const StartedCommands&) = delete;
  StartedCommands& operator=(const StartedCommands&) = delete;

  /// `added`: "NAME=value" each, to this process's environment; so is DSANALYZE_COMMAND, a number that no other command has. Throws UsageError when
  /// there is no such program, Error when no process can be made.
  void start(const std::vector<std::string>& added);
  /// Collects those that have ended; their numbers, from 0 in the order in which they were started.
  std::vector<std::size_t> collect();
  [[nodiscard]] std::size_t running() const;
  struct Running {
    int job = 0;
    std::int64_t process = 0;
  };
  /// Those that run and had not attached when look_at() was called last.
  [[nodiscard]] std::vector<Running> unattached() const;
  void signal(int number) const;
  /// Finds out whose jobs these are: all that ever joined the group, as its host has them. A job is a command's when its process has the command's
  /// number from its environment, or is of the command's process group.
  void look_at(std::span<const GroupJobAccount> jobs);
  /// Of those that look_at() was given last, how many are no command's.
  [[nodiscard]] std::size_t others() const { return m_others; }
  /// Of all that were started and have ended.
  [[nodiscard]] std::vector<ShareCommandRecord> records() const;

 private:
  struct Started {
    pid_t process = 0;
    std::uint64_t number = 0;           ///< as its environment says
    std::optional<CommandGroup> group;  ///< while it runs
    ShareCommandRecord record;
  };
  static void end(Started& started, int status);
  Started* owner_of(const GroupJobOrigin& origin);

  std::vector<std::string> m_words;
  SpawnWay::Output m_output;
  std::vector<std::unique_ptr<Started>> m_started;
  std::size_t m_others = 0;
};

/// "exit status 3", "killed by signal 9 (Killed)", "exit status 0, without having attached".
std::string how_it_ended(const ShareCommandRecord& command);

}  // namespace dsanalyze::cli
