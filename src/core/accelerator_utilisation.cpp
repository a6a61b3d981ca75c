#include "accelerator_utilisation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace dsanalyze {
namespace {

/// When every accelerator has had its first batch.
Nanoseconds first_step_end(std::span<const AcceleratorBatch> batches, std::uint32_t accelerators) {
  std::vector<Nanoseconds> ends;
  ends.reserve(batches.size());
  for (const AcceleratorBatch& batch : batches) ends.push_back(batch.end);
  const auto last_of_first = ends.begin() + (accelerators - 1);
  std::ranges::nth_element(ends, last_of_first);
  return *last_of_first;
}

/// The batch's samples that were computed after `start`.
double samples_after(Nanoseconds start, const AcceleratorBatch& batch) {
  if (batch.end <= start) return 0;
  if (batch.begin >= start) return batch.samples;
  return batch.samples * static_cast<double>(batch.end - start) / static_cast<double>(batch.end - batch.begin);
}

}  // namespace

std::optional<AcceleratorUtilisation> mlperf_storage_au(std::span<const AcceleratorBatch> batches, const AcceleratorGroup& group) {
  if (group.accelerators == 0 || group.batch_size == 0 || !(group.samples_per_s > 0))
    throw std::domain_error("accelerator utilisation: accelerators, batch size and rate must be above 0");
  if (batches.size() <= group.accelerators) return std::nullopt;
  const Nanoseconds start = first_step_end(batches, group.accelerators);
  const Nanoseconds end = std::ranges::max_element(batches, {}, &AcceleratorBatch::end)->end;
  if (end <= start) return std::nullopt;

  AcceleratorUtilisation au;
  double samples = 0;
  for (const AcceleratorBatch& batch : batches) {
    if (batch.end <= start) continue;
    samples += samples_after(start, batch);
    ++au.steps;
  }
  const double computation_time = group.batch_size / group.samples_per_s;
  au.compute_seconds = samples / group.accelerators / group.batch_size * computation_time;
  au.total_seconds = to_seconds(end - start);
  au.value = au.compute_seconds / au.total_seconds * 100;
  au.accelerators = static_cast<int>(group.accelerators);
  au.formula = fmt::format(
      "AU = total_compute_time / total_benchmark_running_time * 100, first step left out; total_compute_time = {:.0f} samples / {} accelerators / "
      "batch_size {} * computation_time {:.6g} s",
      samples, group.accelerators, group.batch_size, computation_time);
  return au;
}

}  // namespace dsanalyze
