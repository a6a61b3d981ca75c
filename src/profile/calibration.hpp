#pragma once

#include "base/clock.hpp"

namespace dsanalyze {

/// How fast one core is by work that no version of this program changes: passes of integer hashing over 1 MiB, which take about 0.15 s in all.
/// Passes/s; 0 when no time passed. `dsanalyze gate --normalize` divides rates by it.
double calibrate_cpu(Timing timing);

}  // namespace dsanalyze
