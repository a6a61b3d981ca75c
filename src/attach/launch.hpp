#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "attach/reads/access_trace.hpp"
#include "attach/sandbox/sandbox.hpp"
#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/process/process_tree.hpp"
#include "base/process/processes.hpp"
#include "base/process/spawn.hpp"
#include "conductor.hpp"
#include "training.hpp"

namespace dsanalyze {

enum class AttachMode {
  phases,  ///< the run is led through the phases and then ended; what it trained is thrown away
  passive  ///< a real training run: only clocks are read
};
constexpr std::array<const char*, 2> names_of(AttachMode /*type*/) { return {"phases", "passive"}; }

/// Another num_workers for the loaders that the script makes at one place.
struct WorkersChange {
  int workers = 0;
  std::string file;  ///< LoaderRecord::file and line
  int line = 0;
};

struct LaunchSettings {
  std::vector<std::string> command;
  AttachMode mode = AttachMode::phases;
  SpawnWay::Output output = SpawnWay::Output::own;
  Conductor::Plan plan;
  double start_seconds = 600;            ///< until the first training step, at most
  double patience_seconds = 2;           ///< for processes that are asked to end
  std::filesystem::path hook;            ///< the folder that goes first on PYTHONPATH
  std::filesystem::path tracer;          ///< the library that traces what the command reads; empty: nothing does, as under AttachMode::passive
  std::filesystem::path folder;          ///< the caller's, private and empty: the socket lies there
  std::optional<SandboxPlan> sandbox{};  ///< phases: for what the command writes; where it is refused, or absent, the command writes as ever
  std::optional<WorkersChange> workers{};
  double storage_seconds = 0;  ///< after its end: the caller measures storage by what it read
  // For the record alone.
  std::string working_directory{};
  std::vector<CommandPathRecord> paths{};  ///< command_paths(), before the start
  bool keep_output = false;                ///< files that the training writes stay
};

struct LaunchedTraining {
  AttachedTraining training;
  std::optional<int> exit_status, signal;  ///< of the command; neither where it was ended because all phases were over
  TreeUse use;
  double seconds = 0;
  std::vector<ProcessUse> others{};          ///< phases: other programs, by what they used of the CPU meanwhile, the busiest first
  double first_step_seconds = 0;             ///< from the start to the first checkpoint
  std::optional<Bytes> memory_usable{};      ///< by others, while the training ran as it was found
  bool finished = false;                     ///< phases: all of them were gone through, whether or not they have steps
  bool heard = false;                        ///< some process of the command loaded the hook, and PyTorch or what the script watches
  std::shared_ptr<const Sandbox> sandbox{};  ///< phases: what the command wrote, for as long as this lives
  std::optional<AccessTrace> accesses;       ///< of all that the command read, where it was traced
  std::string failure;  ///< why nothing is known of the run, or of its rest: passive, or phases of which some were measured; empty
};

/// For the command's environment: the hook's folder first on PYTHONPATH, before what this process's has.
std::string python_path(const std::filesystem::path& hook);

/// Starts a training and leads it through the phases (Conductor), or, passive, watches it until it ends. One that ends well before all phases are
/// measured is started again for those that are left, in a fresh sandbox, three times at most. Under `phases` no process of it is left when
/// this returns or throws, and in a sandbox its changes are none of the user's files. Throws UsageError when there is no such program, Error when a
/// training cannot be profiled (with the reason) and nothing of it was measured, Interrupted when asked to stop. The calling process becomes the
/// parent of what the command leaves behind (adopt_orphans()). Threads: one at a time.
LaunchedTraining launch_training(const LaunchSettings& settings, EventSink& events, const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
