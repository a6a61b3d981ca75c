#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/system/files.hpp"

namespace dsanalyze {

/// How a command is started. No signal is blocked in it, and those are ignored that were ignored when this program was started (nohup), but for
/// SIGCHLD, which has its default: where it is ignored, the system collects children by itself.
struct SpawnWay {
  enum class Input { nothing, own };         ///< nothing: /dev/null
  enum class Output { own, to_stderr };      ///< to_stderr: what it prints does not mix with this program's stdout
  enum class Group { of_its_own, callers };  ///< the process group; only one of its own can be ended as a whole
  Input input = Input::nothing;
  Output output = Output::own;
  Group group = Group::of_its_own;
  /// Called in the child before it becomes the command; empty: nothing is. Async-signal-safe. nullptr, or what failed (a text that outlives the
  /// call; errno says why).
  std::function<const char*()> enter{};
};

/// Where SIGCHLD is ignored, the system collects children by itself, and how they ended is lost: from now on it is not ignored. Threads: any.
void keep_ended_children();

/// From now on a reader of this program's output that has ended, and a limit of the size of files, cost it that output, and not its life. Commands
/// are started as before. Threads: one at a time.
void survive_failed_writes();

/// What went wrong in a child: nothing where `error` is 0.
struct ChildFailure {
  const char* what = nullptr;  ///< a text that is there before the fork
  int error = 0;               ///< errno
};
struct ForkedChild {
  int process = 0;  ///< which the caller collects
  ChildFailure failure;
};
/// Runs `body` in a child with the default handlers of signals, until it returns or the child becomes another program; it may call async-signal-safe
/// functions alone. A child that takes longer is killed, and has failed with ETIMEDOUT. Throws Error. Threads: any.
ForkedChild fork_child(const std::function<ChildFailure()>& body, double most_seconds);

/// Where the program of a command is found, as a shell finds it in `folder`; empty where it is not.
std::filesystem::path program_path(const std::string& word, const std::filesystem::path& folder = {});

/// Starts `words`, the program (looked up in PATH) and its arguments, with this process's environment and `added` ("NAME=value" each). The caller
/// collects the process. Throws UsageError when there is no such program, Error when no process can be made or SpawnWay::enter fails.
int spawn_command(std::vector<std::string> words, const std::vector<std::string>& added, const SpawnWay& way);

/// While one lives, signals that would ask this program to stop belong to a process that it starts: what is sent to this program is sent on to that
/// one. One at a time. Threads: any.
class SignalRelay {
 public:
  /// What comes before the process is there is kept for it.
  SignalRelay();
  ~SignalRelay();
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  /// `process`: a child that has not been collected. It is sent what was kept. Called once.
  void send_to(int process);

  /// Sends a signal that this program received to the process; nothing where it has ended. A signal that came from the terminal was sent to the
  /// process, too, if that was there. Returns whether there is a relay, which means that the signal asks nothing of this program.
  static bool relay(int signal, bool from_terminal);

 private:
  void send(int signal) const;

  int m_process = 0;        ///< 0: not there yet
  FileDescriptor m_handle;  ///< of the process, whose number may be another's once it is collected; none where the kernel has no such thing
  std::vector<int> m_kept;  ///< in the order in which they came
};

}  // namespace dsanalyze
