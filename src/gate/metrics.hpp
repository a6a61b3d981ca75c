#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/records/gate_result.hpp"
#include "gate.hpp"

namespace dsanalyze::gate {

/// Which way a metric gets worse.
enum class Worse { lower, higher };

struct MetricKind {
  std::string name;
  std::string words;  ///< "what prep can supply"
  GateScale scale = GateScale::ratio;
  Worse worse = Worse::lower;
  bool by_default = true;
  double weight = 1;  ///< its part of the error probability: what says most of a loader has most of it
};

const std::vector<MetricKind>& metric_kinds();
const MetricKind& metric_kind(const std::string& name);
/// The kinds of these names, in the table's order; empty: the default ones; "all": every one. Throws UsageError that suggests the nearest name.
std::vector<MetricKind> chosen_metrics(const std::vector<std::string>& names);

/// What a profile holds of a metric: samples/s above 0, or a share of the epoch. `missing` says why there is none.
struct MetricValue {
  std::optional<double> value;
  std::string missing;
  double own_deviation = 0;  ///< standard error of this run's value by its own interval: a share of a rate, or points of a stall
};
MetricValue metric_value(const ProfileResult& profile, const MetricKind& kind);

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
