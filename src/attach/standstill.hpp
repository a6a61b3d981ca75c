#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/process/process_tree.hpp"

namespace dsanalyze {

struct StackFrame {
  std::string file;
  int line = 0;
  std::string function;
};

/// The stack of the main thread, innermost frame first, in what Python's faulthandler wrote of it. Empty where there is none. What is no frame is
/// passed over.
std::vector<StackFrame> main_stack(std::string_view dump);

/// What a process does whose main thread has this stack.
enum class ProcessRole {
  training,    ///< the script itself
  with_ranks,  ///< the script itself, in a call that waits for other ranks, as a backward pass may
  waiting,     ///< the script itself, which waits for a batch of its loader
  working,     ///< a worker of a loader, at work
  idle,        ///< a worker of a loader that waits to be asked for a batch
};
ProcessRole role_of(const std::vector<StackFrame>& stack);

/// "train.py:23 in __getitem__", with what it calls of a library: ", PIL/Image.py:3218 in open". Of a loader's worker, what it was forked from is no
/// part of it. Empty for an empty stack.
std::string place_of(const std::vector<StackFrame>& stack);

/// Of a training that stands still.
struct Standstill {
  std::string cause;               ///< which process stands still, where, and in which system call; empty where no process says
  std::vector<std::string> lines;  ///< every process, and the memory that is left
};

/// Where each of `processes` is. Those are asked that have left a file for it in the launch's `folder` (python/dsanalyze/_attach/standstill.py) and
/// catch the signal. Waits a second at most. `ranks` are those that train, by PID; without them, as no step was seen, any process that is no worker
/// may be the one that trains.
Standstill explain_standstill(const std::vector<TreeProcess>& processes, const std::map<int, int>& ranks, const std::filesystem::path& folder,
                              const Clock& clock);

}  // namespace dsanalyze
