#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/units.hpp"

namespace dsanalyze {

/// A process as the kernel tells it now.
struct ProcessFacts {
  int pid = 0;
  int parent = 0;
  char state = '?';     ///< 'Z': it has ended and waits to be collected
  std::string command;  ///< as the kernel calls it, up to 15 bytes
  double cpu_seconds = 0;
  double children_cpu_seconds = 0;  ///< of children that it has collected, and of theirs
  std::uint64_t started = 0;        ///< ticks since the machine's start: with the number, it names one process
};
/// All processes of the machine, or of this container. `proc` stands for "/proc" in tests. Threads: any.
std::vector<ProcessFacts> list_processes(const std::filesystem::path& proc = "/proc");

/// The numbers of processes that were started with this "NAME=value" in their environment, as far as this user may see that; a fork of such a process
/// is one, too. Those that have ended are none. Threads: any.
std::vector<int> processes_with(std::string_view variable, const std::filesystem::path& proc = "/proc");

/// CPU time that a process used while it was watched.
struct ProcessUse {
  int pid = 0;
  std::string command;  ///< as the kernel calls it, up to 15 bytes
  double cpu_seconds = 0;
};

/// Adds up what each process of the machine, or of this container, uses of the CPU from one look to another. Processes that end between two looks
/// count up to the look before. Threads: one at a time.
class ProcessWatch {
 public:
  /// `root` stands for "/" in tests: reads <root>/proc/PID/stat.
  explicit ProcessWatch(std::filesystem::path root = "/");
  void look();
  /// Since the first look, without this process, the busiest first; those that used nothing are left out.
  [[nodiscard]] std::vector<ProcessUse> used() const;

 private:
  struct Seen {
    std::string command;
    double first_seconds = 0;
    double last_seconds = 0;
  };
  std::filesystem::path m_root;
  bool m_looked = false;
  std::map<std::pair<int, std::uint64_t>, Seen> m_seen;  ///< by number and start time: numbers are used again
};

/// A process group that this process started and has to end. While one of these lives, its leader must not be collected (waitpid), so that the number
/// is no other process's. Threads: any.
class StartedGroup {
 public:
  /// `start` starts the leader and returns its number; what it throws is passed on. kill_started_groups() waits for it, so that no group is missed.
  explicit StartedGroup(const std::function<int()>& start);
  ~StartedGroup();
  StartedGroup(const StartedGroup&) = delete;
  StartedGroup& operator=(const StartedGroup&) = delete;

  [[nodiscard]] int leader() const { return m_leader; }

 private:
  int m_leader;
};

/// For who is about to end this process without waiting for anything: SIGKILL to every started group, those too that are being started (for a second
/// at most). Not for signal handlers.
void kill_started_groups();

}  // namespace dsanalyze
