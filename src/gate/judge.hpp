#pragma once

#include <span>
#include <string>
#include <vector>

#include "gate.hpp"
#include "metrics.hpp"
#include "statistics.hpp"

namespace dsanalyze::gate {

/// A metric's values, run by run: logarithms of rates, or shares.
struct Series {
  MetricKind kind;
  std::vector<double> baseline, current;
  double own_baseline = 0, own_current = 0;  ///< mean square of the runs' standard errors by their own intervals
};

struct Collected {
  std::vector<Series> series;  ///< of the metrics that every run has
  std::vector<GateAbsence> absent;
};
/// Only metrics that every run of both sides has are compared; the others are named with the reason.
Collected collect(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options);

/// A metric's contrast, and what it stands on.
struct Compared {
  MetricKind kind;
  double baseline = 0;  ///< mean of the logarithms, or of the shares
  double current = 0;
  std::size_t observations_baseline = 0;
  std::size_t observations_current = 0;
  Contrast contrast;
  std::size_t fewest_runs = 0;  ///< of a side
  double least_error = 0;       ///< square of the standard error below which the contrast's is not taken
};
/// Fills what a comparison of so many runs of each side is not taken below.
void bound_below(Compared& compared, const Series& series, std::size_t runs_baseline, std::size_t runs_current);

/// How far verdicts can go.
struct Judgement {
  double min_effect = 0.03;
  double level = family_alpha;  ///< one-sided, of a metric of weight 1
  GateUnit unit = GateUnit::run;
  std::string distrusted;  ///< why nothing can be told; empty: it can
  std::string one_sided;   ///< why there is no scatter, where there is none
};
GateMetric judge(const Compared& compared, const Judgement& judgement);

/// Names the metrics of which some observations lie so far off the others that the estimate hardly counts them, and returns a clause that says so for
/// the conclusion; empty where there are none.
std::string find_far_off(const std::vector<Compared>& compared, const Judgement& judgement, std::vector<Finding>& findings);

/// The one-sided level of a metric of weight 1 of a comparison.
double level_of(const std::vector<Compared>& compared, double alpha);

/// What a verdict is to be read with; empty where there is nothing.
struct Reservations {
  std::string far_off;               ///< of find_far_off()
  bool one_after_the_other = false;  ///< all runs of one side came first
};
/// Fills verdict and reason of the whole from its metrics.
void conclude(GateResult& result, const GateOptions& options, const Reservations& reservations);

/// Tool, sides, ignored differences, findings that any comparison has. Throws UsageError for what cannot be compared.
GateResult begin_result(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options);
/// Why verdicts cannot rest on these runs; empty: they can.
std::string distrust(std::span<const GateRun> baseline, std::span<const GateRun> current, const GateOptions& options);

}  // namespace dsanalyze::gate
