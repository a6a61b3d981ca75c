#pragma once

#include <string>

#include "core/records/job_mix_result.hpp"
#include "report/report.hpp"

namespace dsanalyze::console {

/// What is predicted of a job mix: a table of the ways of sharing, then one of each job's rates.
std::string job_mix_section(const WhatIfJobMix& mix, const ConsoleStyle& style);

}  // namespace dsanalyze::console
