#pragma once

#include <string>
#include <vector>

namespace dsanalyze {

/// How a command is started. No signal is blocked in it, and those are ignored that were ignored when this program was started (nohup).
struct SpawnWay {
  enum class Input { nothing, own };         ///< nothing: /dev/null
  enum class Output { own, to_stderr };      ///< to_stderr: what it prints does not mix with this program's stdout
  enum class Group { of_its_own, callers };  ///< the process group; only one of its own can be ended as a whole
  Input input = Input::nothing;
  Output output = Output::own;
  Group group = Group::of_its_own;
};

/// From now on a reader of this program's output that has ended costs it that output, and not its life. Commands are started as before. Threads: one
/// at a time.
void survive_closed_pipes();

/// Starts `words`, the program (looked up in PATH) and its arguments, with this process's environment and `added` ("NAME=value" each). The caller
/// collects the process. Throws UsageError when there is no such program, Error when no process can be had.
int spawn_command(std::vector<std::string> words, const std::vector<std::string>& added, const SpawnWay& way);

}  // namespace dsanalyze
