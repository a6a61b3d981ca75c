#include <fmt/format.h>

#include <algorithm>

#include "whatif_parts.hpp"

namespace dsanalyze::whatif {
namespace {

/// How far batches lie outside those that G was measured with.
double batch_extrapolation(const RateModel& model, double batch) {
  if (model.any_batch_size || !model.batch_size) return 1;
  double least = *model.batch_size;
  double most = least;
  for (const BatchPoint& point : model.ingestion_by_batch) {
    least = std::min(least, point.batch_size);
    most = std::max(most, point.batch_size);
  }
  return std::max(batch / most, least / batch);
}

double storage_extrapolation(const RateModel& model, const WhatIfChange& change) {
  double most = change.storage_factor.value_or(1);
  if (change.storage_bytes_per_s && model.storage_bytes_per_s) most = std::max(most, *change.storage_bytes_per_s / *model.storage_bytes_per_s);
  if (!model.storage_curve) return most;
  if (change.request_bytes) most = std::max(most, *change.request_bytes / model.storage_curve->largest_request());
  if (change.fetch_concurrency) most = std::max(most, *change.fetch_concurrency / model.storage_curve->largest_concurrency());
  return most;
}

}  // namespace

double extrapolation(const RateModel& model, const WhatIfChange& change) {
  double most = std::max(1.0, storage_extrapolation(model, change));
  if (change.cores && model.measured_cores_high) most = std::max(most, *change.cores / *model.measured_cores_high);
  if (change.cores_factor) most = std::max(most, *change.cores_factor);
  const double accelerators = change.accelerators && model.accelerators ? *change.accelerators / *model.accelerators : 1;
  most = std::max(most, accelerators * change.accelerator_speed.value_or(1));
  if (change.servers) most = std::max(most, static_cast<double>(*change.servers) / std::max(model.profiled_ranks, 1));
  if (change.jobs) most = std::max(most, static_cast<double>(*change.jobs) / std::max(model.profiled_jobs, 1));
  if (change.batch_size) most = std::max(most, batch_extrapolation(model, *change.batch_size));
  return most;
}

std::optional<Finding> far_extrapolation_finding(double most) {
  if (most <= most_extrapolation) return std::nullopt;
  return Finding{"extrapolated-far", Finding::Severity::warning,
                 fmt::format("A resource is up to {} times what was measured; beyond {} times an answer is an estimate, never certain.",
                             format_number(most), format_number(most_extrapolation))};
}

}  // namespace dsanalyze::whatif
