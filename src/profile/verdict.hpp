#pragma once

#include "dsanalyze/core/result.hpp"

namespace dsanalyze {

/// Fills what follows from the measured rates and runs: F (Eq 4), stalls (differences of the runs' time a sample), bottleneck, observed. Pure.
void conclude(ProfileResult& result, double cache_fraction);

}  // namespace dsanalyze
