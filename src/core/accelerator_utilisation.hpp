#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/clock.hpp"

namespace dsanalyze {

/// One mini-batch on one accelerator.
struct AcceleratorBatch {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::uint32_t samples = 0;
};

struct AcceleratorGroup {
  std::uint32_t accelerators = 1;
  std::uint32_t batch_size = 1;  ///< of one accelerator
  double samples_per_s = 0;      ///< of one accelerator
};

/// Accelerator utilisation (AU) as MLPerf Storage defines it for training [MLPerf Storage v2.0, Submission_guidelines.md, section 4]:
///   AU = (total_compute_time / total_benchmark_running_time) * 100
///   total_compute_time = (records_per_file * total_files) / simulated_accelerators / batch_size * computation_time * epochs
/// The first step is left out of both times. The formula is theirs; a figure of dsanalyze is no MLPerf result, as it keeps none of the other rules.
struct AcceleratorUtilisation {
  double value = 0;            ///< percent
  double compute_seconds = 0;  ///< total_compute_time
  double total_seconds = 0;    ///< total_benchmark_running_time
  std::uint64_t steps = 0;     ///< batches of all accelerators that counted, whole or in part
  int accelerators = 0;
  std::string formula;  ///< with this run's figures
};

/// Over the batches of one run, any order. The time runs from the end of the first step (the first batch of each accelerator) to the last end;
/// samples of a batch that spans its begin count by the part after it. computation_time is the time of a full batch at the accelerator's own rate, so
/// waits of any kind lower the figure. nullopt where nothing follows the first step. Requires all of `group` > 0; throws std::domain_error otherwise.
std::optional<AcceleratorUtilisation> mlperf_storage_au(std::span<const AcceleratorBatch> batches, const AcceleratorGroup& group);

}  // namespace dsanalyze
