#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "attach/sandbox/sandbox.hpp"
#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/process/spawn.hpp"
#include "core/records/resume_result.hpp"

namespace dsanalyze {

struct ResumeLaunch {
  std::vector<std::string> command;
  ResumeSettings settings;
  std::filesystem::path hook;    ///< the folder that goes first on PYTHONPATH
  std::filesystem::path folder;  ///< the caller's, private and empty
  SpawnWay::Output output = SpawnWay::Output::own;
  double most_seconds = 600;
  SandboxPlan sandbox{};  ///< for what the command writes; where it is refused, the command writes as ever
};

/// Starts a script, whose first loader with a state is stopped and resumed in place of the training, and ends it. No process of it is left when this
/// returns or throws. Throws UsageError when there is no such program, Error where no such
/// loader was seen, where it failed, or where that took longer than `most_seconds`; Interrupted when asked to stop. The calling process becomes the
/// parent of what the command leaves behind.
ResumeResult prove_resume(const ResumeLaunch& launch, const std::stop_token& stop, Timing timing);

}  // namespace dsanalyze
