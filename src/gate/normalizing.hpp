#pragma once

#include <span>
#include <string>

#include "gate.hpp"
#include "metrics.hpp"

namespace dsanalyze::gate {

/// Of --normalize: results of CPUs of different speed, each with the calibration that its profile measured.

/// Throws UsageError that names the first run without a calibration, and why it has none.
void require_calibrations(std::span<const GateRun> baseline, std::span<const GateRun> current);
/// Passes/s, the mean of a side's runs, which all have a calibration.
double mean_calibration(std::span<const GateRun> runs);

/// How a metric is brought to one speed of the CPU: by dividing, or not at all as it does not depend on it, or it cannot be compared.
enum class Normalizing { divided, as_it_is, left_out };
struct NormalizingRule {
  Normalizing way = Normalizing::as_it_is;
  std::string reason;  ///< with left_out: a clause
};
NormalizingRule normalizing_rule(const MetricKind& kind, std::span<const GateRun> baseline, std::span<const GateRun> current);

/// Whether an identity field may differ because normalising covers it: the CPU's model, its kernel, the memory's size.
bool is_covered_by_normalizing(const std::string& field);

}  // namespace dsanalyze::gate
