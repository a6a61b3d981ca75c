#pragma once

#include <array>

#include "core/records/result.hpp"

namespace dsanalyze {

/// What a full cache saves, as shares of an epoch: of the dataset's bytes, and of storage's time. The same, but with cost-aware admission.
struct CacheShare {
  double bytes = 0;
  double storage_time = 0;
};

/// Fills what follows from the measured rates and runs: F (Eq 4), stalls (differences of the runs' time a sample), bottleneck, observed. Pure.
void conclude(ProfileResult& result, const CacheShare& cached);

/// Compute, prep and fetch as fractions of the full run's time, from differences of the runs' time a sample [DS-Analyzer, section 3.2]; the seconds
/// are of an epoch of so many samples. The intervals hold the errors of all three runs.
std::array<StallRecord, 3> stalls_of(const RateRecord& ingestion, const RunRecord& cached, const RunRecord& full, double samples);

}  // namespace dsanalyze
