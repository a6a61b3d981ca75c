#pragma once

#include <string>

#include "base/host/host.hpp"
#include "base/process/processes.hpp"
#include "core/records/result.hpp"

namespace dsanalyze {

/// What others took between the two samples, with the processes that took the most.
BackgroundLoad background_load(const CpuSample& before, const CpuSample& after, const HostFacts& host, const ProcessWatch& processes);

/// "stress-ng (PID 1234) 28 %, cc1plus (PID 99) 3 %"; where no process explains it, who else it may be.
std::string load_text(const BackgroundLoad& load);

}  // namespace dsanalyze
