#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/records/gate_result.hpp"

namespace dsanalyze::gate {

/// Which way a metric gets worse.
enum class Worse { lower, higher };

struct MetricKind {
  std::string name;
  std::string words;  ///< "what prep can deliver"
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

}  // namespace dsanalyze::gate
