#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "base/text/units.hpp"
#include "gate_result.hpp"

namespace dsanalyze {

// The figures of a gate's metric as people read them, for every view.

/// "-5.1", with a sign and a point; two digits behind it where one would say 0.
inline std::string gate_percent(double share) {
  char text[64];
  std::snprintf(text, sizeof text, std::fabs(share) < 0.0005 ? "%+.2f" : "%+.1f", 100 * share);
  return text;
}
/// "2,445", or "35.1 %" for a stall.
inline std::string gate_value_text(const GateMetric& metric, double value) {
  return metric.scale == GateScale::ratio ? format_number(value) : format_share(value);
}
/// "-5.1 %", or "+2.9 points" for a stall.
inline std::string gate_effect_text(const GateMetric& metric) {
  return gate_percent(metric.effect) + (metric.scale == GateScale::ratio ? " %" : " points");
}
/// "-6.2 to -4.0"; "not known" without one. The unit is the effect's.
inline std::string gate_interval_text(const GateMetric& metric) {
  constexpr double wide = 10;  // ten times the baseline: more says nothing
  if (!metric.interval) return "not known";
  if (metric.interval->high > wide) return gate_percent(metric.interval->low) + " or more";
  return gate_percent(metric.interval->low) + " to " + gate_percent(metric.interval->high);
}
/// "12 runs", "12 runs of 3 sessions".
inline std::string gate_runs_text(const GateSide& side) {
  const std::string runs = gate_count_text(GateUnit::run, side.runs);
  return side.sessions == 0 ? runs : runs + " of " + gate_count_text(GateUnit::session, side.sessions);
}

}  // namespace dsanalyze
