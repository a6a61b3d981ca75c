#include "storage_cost_fit.hpp"

#include <vector>

namespace dsanalyze {

StorageCost fitted_storage_cost(const RunContext& context) {
  std::vector<CostPoint> points;
  for (const StoragePoint& point : context.storage_curve) {
    if (point.concurrency == context.inputs.settings.fetch_concurrency) points.push_back({point.request_bytes, point.bytes_per_s});
  }
  return points.empty() ? StorageCost{0, 1} : fit_storage_cost(points);
}

double saved_storage_share(const RunContext& context) {
  if (context.inputs.settings.admission == Admission::first) return context.plan.cache_fraction;
  return 1 - cost_aware_remaining_share(context.subset->records(), fitted_storage_cost(context), context.subset_cache_bytes);
}

}  // namespace dsanalyze
