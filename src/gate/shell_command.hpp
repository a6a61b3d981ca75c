#pragma once

#include <stop_token>
#include <string>

namespace dsanalyze::gate {

struct ShellOutcome {
  enum class End { exited, killed, timed_out, stopped, too_much_output };
  End end = End::exited;
  int status = 0;  ///< exit status; the signal's number when killed
  std::string output;
  std::string errors;  ///< the last 4 KiB of stderr
};

/// Runs `command` by /bin/sh -c with nothing on stdin, in a process group of its own, and waits for it. Whatever the group still runs after that,
/// past the deadline, on a stop, or when stdout grows beyond `most_output` bytes, is ended: SIGTERM, and SIGKILL 2 s later, or as
/// soon as the shell has ended and no process holds its stdout and stderr. The shell itself dies with this process. Children of this process are no
/// longer collected by the system (SIGCHLD ignored becomes the default). Throws Error when no process can be made, or when somebody else collected
/// the shell. Threads: one command a thread.
ShellOutcome run_shell(const std::string& command, double seconds, std::size_t most_output, const std::stop_token& stop);

}  // namespace dsanalyze::gate
