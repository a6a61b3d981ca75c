#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {

/// The whole life of one coordinated job's process (`ProfileInputs::start_job`): joins the group at the other end of `line`, trains on its batches,
/// tells what it found, or what went wrong, over `report`. Does not throw.
struct GroupJobEnd {
  bool ok = false;
  std::string untold;  ///< what went wrong, where nobody is left to be told over `report`
};
GroupJobEnd run_group_job_process(FileDescriptor line, FileDescriptor report, Timing timing);

}  // namespace dsanalyze
