#pragma once

#include <string>

#include "core/records/simulate_result.hpp"

namespace dsanalyze::report {

// What a simulation says, in words: the same in every view.

/// Samples, bytes, order, jobs, accesses.
std::string dataset_line(const SimulateResult& result);
/// The cache's size over the dataset's.
double share_of(const CacheCase& cache, Bytes dataset_bytes);

}  // namespace dsanalyze::report
