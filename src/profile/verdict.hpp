#pragma once

#include "core/records/result.hpp"

namespace dsanalyze {

/// What a full cache saves, as shares of an epoch: of the dataset's bytes, and of storage's time. The same, but with cost-aware admission.
struct CacheShare {
  double bytes = 0;
  double storage_time = 0;
};

/// Fills what follows from the measured rates and runs: F (Eq 4), stalls (differences of the runs' time a sample), bottleneck, observed. Pure.
void conclude(ProfileResult& result, const CacheShare& cached);

}  // namespace dsanalyze
