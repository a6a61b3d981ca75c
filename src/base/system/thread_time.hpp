#pragma once

#include "base/clock.hpp"

namespace dsanalyze {

/// CPU time of the calling thread since it began.
Nanoseconds thread_cpu_time();

}  // namespace dsanalyze
