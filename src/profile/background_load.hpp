#pragma once

#include <string>

#include "dsanalyze/base/host.hpp"
#include "dsanalyze/base/processes.hpp"
#include "dsanalyze/core/result.hpp"
#include "runs.hpp"

namespace dsanalyze {

/// What others took between the two samples, with the processes that took the most.
BackgroundLoad background_load(const CpuSample& before, const CpuSample& after, const HostFacts& host, const ProcessWatch& processes);

/// "stress-ng (PID 1234) 28 %, cc1plus (PID 99) 3 %"; where no process explains it, who else it may be.
std::string load_text(const BackgroundLoad& load);

/// What the load of others makes of the runs: windows-void, cpu-shared-with-others, cpu-taken-by-others (then nothing is trusted), with the
/// processes.
void judge_background_load(RunContext& context, const std::vector<RunRecord>& runs);

}  // namespace dsanalyze
