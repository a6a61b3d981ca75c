#include "attached_runs.hpp"

#include <algorithm>

#include "attached_parts.hpp"

namespace dsanalyze {

RateRecord rate_record(const std::vector<Stretch>& stretches, const std::string& method) {
  const Estimate estimate = estimate_of_ratio(stretches);
  RateRecord record;
  record.samples_per_s = estimate.value;
  record.ci95_samples_per_s = {std::max(estimate.ci95.low, 0.0), estimate.ci95.high};
  record.windows = estimate.windows;
  record.method = method;
  return record;
}

void take_rate(const RateRecord& rate, RunRecord& run) {
  run.samples_per_s = rate.samples_per_s;
  run.ci95_samples_per_s = rate.ci95_samples_per_s;
  run.windows = rate.windows;
}

void take_use(const std::optional<TreeUse>& before, const std::optional<TreeUse>& after, RunRecord& run) {
  if (!before || !after) return;
  const auto difference = [](Bytes from, Bytes to) { return to > from ? to - from : 0; };
  run.requested_bytes = difference(before->requested_bytes, after->requested_bytes);
  if (before->storage_bytes && after->storage_bytes) run.storage_bytes = difference(*before->storage_bytes, *after->storage_bytes);
  const double seconds = to_seconds(after->at - before->at);
  if (seconds > 0 && after->cpu_seconds >= before->cpu_seconds) run.cores_used = (after->cpu_seconds - before->cpu_seconds) / seconds;
  if (before->storage_wait_seconds && after->storage_wait_seconds && seconds > 0)
    run.storage_wait_fraction = std::clamp((*after->storage_wait_seconds - *before->storage_wait_seconds) / seconds, 0.0, 1.0);
}

bool read_storage(const RunRecord& run, double least_fraction) {
  return run.storage_bytes.value_or(0) >= negligible_bytes &&
         static_cast<double>(*run.storage_bytes) > least_fraction * static_cast<double>(run.requested_bytes) &&
         run.storage_wait_fraction.value_or(1) > tolerated_wait;
}

}  // namespace dsanalyze
