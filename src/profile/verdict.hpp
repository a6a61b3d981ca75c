#pragma once

#include <vector>

#include "core/records/result.hpp"

namespace dsanalyze {

/// What a full cache saves, as shares of an epoch: of the dataset's bytes, and of storage's time. The same, but with cost-aware admission.
struct CacheShare {
  double bytes = 0;
  double storage_time = 0;
};

/// Fills what follows from the measured rates and runs: F (Eq 4), stalls (differences of the runs' time a sample), bottleneck, observed. Pure.
void conclude(ProfileResult& result, const CacheShare& cached);

/// What each of these runs, from the fastest setting on (G, cached, full), adds to the time a sample of the one before, as fractions of the last
/// one's [DS-Analyzer, section 3.2]; the seconds are of an epoch of so many samples. The intervals hold the errors of all runs.
std::vector<StallRecord> stalls_of(const std::vector<RateRecord>& runs, double samples);
RateRecord rate_of(const RunRecord& run);

}  // namespace dsanalyze
