#pragma once

#include "runs.hpp"

namespace dsanalyze {

/// What a request costs storage at the run's own concurrency: the straight line through the curve's points there.
StorageCost fitted_storage_cost(const RunContext& context);
/// The share of an epoch's storage time that a full cache saves: the cache fraction, or more with cost-aware admission.
double saved_storage_share(const RunContext& context);

}  // namespace dsanalyze
