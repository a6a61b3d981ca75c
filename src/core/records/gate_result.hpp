#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "base/statistics.hpp"
#include "base/text/units.hpp"
#include "result.hpp"

namespace dsanalyze {

/// "dsanalyze.gate/1" as structs: what a comparison of two sides found. Views of it compute no figures of their own.

enum class GateVerdict { regression, improvement, no_change, cannot_tell };
constexpr std::array<const char*, 4> names_of(GateVerdict /*type*/) { return {"regression", "improvement", "no change", "cannot tell"}; }
std::string gate_verdict_name(GateVerdict verdict);

/// What one observation is.
enum class GateUnit { run, session, pair };
constexpr std::array<const char*, 3> names_of(GateUnit /*type*/) { return {"run", "session", "pair"}; }
std::string gate_unit_name(GateUnit unit);
std::string gate_count_text(GateUnit unit, std::size_t count);  ///< "1 run", "12 runs"

/// Rates change in shares of the baseline; stalls, themselves shares of the epoch, by a difference of shares (shown in percentage points).
enum class GateScale { ratio, difference };
constexpr std::array<const char*, 2> names_of(GateScale /*type*/) { return {"ratio", "difference"}; }

struct GateMetric {
  std::string name;  ///< P, C, S, N, F, cached, full, prep-stall, fetch-stall
  GateScale scale = GateScale::ratio;
  double baseline = 0;  ///< samples/s (geometric mean of the observations), or share of the epoch (mean)
  double current = 0;   ///< the same
  std::size_t observations_baseline = 0;
  std::size_t observations_current = 0;
  /// -0.05: 5 % fewer samples/s. Of a stall +0.05: five percentage points more.
  double effect = 0;
  /// Simultaneous over all metrics of the comparison, at GateResult::confidence. Absent where there is no scatter to take it from.
  std::optional<Interval> interval;
  GateVerdict verdict = GateVerdict::cannot_tell;
  std::string reason;                ///< a sentence
  std::optional<std::int64_t> more;  ///< observations a side (pairs) that would decide, beside those there are; with cannot_tell
};

/// A metric that was not compared, and why.
struct GateAbsence {
  std::string metric;
  std::string reason;
};

struct GateSide {
  std::vector<std::string> sources;  ///< files, or the command
  std::size_t runs = 0;
  std::size_t sessions = 0;           ///< that these runs come from; 0: not known
  std::vector<std::string> tools;     ///< "dsanalyze 0.1.0 (abc)", each once
  std::optional<double> calibration;  ///< with --normalize: the machine's speed by the calibration, passes/s (mean of the runs)
};

/// An identity field whose values differ and that was asked to be ignored.
struct GateDifference {
  std::string field;
  std::string baseline;
  std::string current;
};

struct GateResult {
  ToolRecord tool;
  std::string mode;  ///< "files", "commands"
  GateVerdict verdict = GateVerdict::cannot_tell;
  std::string reason;  ///< a sentence
  double min_effect = 0.03;
  double confidence = 0.985;  ///< of all intervals together; half of the rest on each side, so a false regression has at most (1 - confidence) / 2
  GateUnit unit = GateUnit::run;
  GateSide baseline, current;
  std::vector<GateDifference> ignored;
  bool normalized = false;
  std::vector<GateMetric> metrics;
  std::vector<GateAbsence> absent;
  std::optional<double> seconds;  ///< with commands: what the comparison took
  std::vector<Finding> findings;
};

/// 3 for a regression, 4 for cannot tell, else 0.
int gate_exit_code(GateVerdict verdict);

std::string to_json(const GateResult& result);
/// Strict: throws UsageError that names the field. Unknown fields are ignored (fields are only added within a version).
GateResult gate_from_json(std::string_view text, const std::string& source);

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
