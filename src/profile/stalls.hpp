#pragma once

#include <array>

#include "core/records/result.hpp"

namespace dsanalyze {

/// Compute, prep and fetch as fractions of the full run's time, from differences of the runs' time a sample [DS-Analyzer, section 3.2]; the seconds
/// are of an epoch of so many samples. The intervals hold the errors of all three runs.
std::array<StallRecord, 3> stalls_of(const RateRecord& ingestion, const RunRecord& cached, const RunRecord& full, double samples);

}  // namespace dsanalyze
