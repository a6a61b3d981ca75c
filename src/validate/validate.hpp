#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "core/records/whatif_result.hpp"
#include "profile/profiler.hpp"

namespace dsanalyze {

/// What prep is worth in the probe's seconds: P times what a sample of the probe takes, over all gauges of one number of cores.
class ProbedWork {
 public:
  /// Gauges that lack one of the two are left out.
  void add(const PrepGauge::Speed& gauge);
  /// P when a sample of the probe takes so long; nullopt without a gauge, or when that is 0 (not known).
  [[nodiscard]] std::optional<double> prep(double probe_seconds) const;

 private:
  double m_sum = 0;
  int m_gauges = 0;
};

/// Jobs that use each prepared sample; 1 of jobs that share nothing.
double jobs_that_share(const WhatIfAnswer& answer);

/// How fast prep is while a configuration runs, over the profile: a CPU that others share drifts by several percent within minutes, which is no error
/// of a prediction. Before and after the run P is measured at the configuration's own number of cores (at the profile's where it measured no P of
/// them: a P that was only fitted stays what it is, its error is one of the prediction); while it runs, a probe tells what a sample takes on these
/// cores, as it does during the gauges. P times the probe's seconds is the same however fast the cores are, so its mean over all gauges so far, over
/// the probe's seconds during the run, is P then. Emulated and null prep only wait: their speed does not change. One thread at a time.
class Speedometer {
 public:
  Speedometer(const ProfileInputs& base, const ProfileResult& profile, const std::stop_token& stop, Timing timing);

  /// What begin() and end() of one configuration take together.
  static double seconds(const ProfileResult& profile);

  /// Right before the answer's configuration runs.
  void begin(const WhatIfAnswer& answer);
  /// Right after it has run: P on average while it did, over the profile's.
  double end();
  /// P of the answer's number of cores, of all its jobs together; of the latest begin() and end() where they measured it, otherwise measured now,
  /// once for each number of them. The answer's own where prep only waits.
  double prep(const WhatIfAnswer& answer);

 private:
  [[nodiscard]] int cores_of(const WhatIfAnswer& answer) const;
  PrepGauge::Speed gauge(int cores);
  /// P of m_cores while something ran, from the gauges before and after it and what a sample of the probe took meanwhile.
  [[nodiscard]] double prep_while(const PrepGauge::Speed& after, double probe_seconds) const;

  const ProfileResult& m_profile;
  std::map<int, double> m_profiled;  ///< P by cores, measured
  std::optional<PrepGauge> m_gauge;
  int m_cores = 0;  ///< of the latest begin()
  PrepGauge::Speed m_before;
  double m_while = 0;  ///< P during the latest run
  std::map<int, ProbedWork> m_work;
  std::map<int, double> m_others;
};

struct ValidationOptions {
  /// Of all runs together, which then share it; 0: what each needs for three epochs of the subset after the first, 15 s at least, of as many of the
  /// most telling configurations as fit into `default_seconds`.
  double seconds = 0;
  static constexpr double default_seconds = 180;
  /// Bounds on the absolute relative errors of the configurations whose windows were not void; past them the predictions failed.
  double most_median_error = 0.02;
  double most_worst_error = 0.05;
};

/// Why this machine cannot run the configuration of an answer; empty when it can. Real storage can be made slower (a cgroup that limits reads), not
/// faster; real prep has the cores that this process may use.
std::string cannot_run(const ProfileInputs& base, const ProfileResult& profile, const WhatIfAnswer& answer);

/// What validate() will run, and for how long.
struct ValidationPlan {
  std::vector<std::size_t> order;  ///< of the answers: the most telling first
  double seconds = 0;              ///< of all of them
  double stretch = 1;              ///< of what each needs
  std::size_t left_out = 0;        ///< could run, and do not fit
  double seconds_of_all = 0;       ///< with those
};
/// The unchanged configuration, then each time the one that tells most that is new: another bottleneck, or else the rate furthest from those
/// chosen. Fills not_measured of the answers that will not run.
ValidationPlan plan_validation(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options);
/// "7 of 18 configurations run here, about 2 min 50 s in all, the most telling first; ...", for people.
std::string plan_text(const ValidationPlan& plan, std::size_t answers);

/// Runs the configurations of plan_validation(), over the profile's own subset. Before and
/// after each, P is measured for some seconds: predictions are compared at the speed that prep had at that minute (Measured::speed), and as they
/// were made too. P at each number of cores shows the bottleneck. Fills measured and not_measured of the answers, and the result's validation with
/// its outcome: passed; failed (errors past the bounds, or a wrong verdict); undecided (every window void, or nothing could be run).
/// `base` are the inputs of the profile, its index opened again. Throws Error when a run fails, Interrupted
/// when asked to stop; cgroups are left either way.
void validate(const ProfileInputs& base, const ProfileResult& profile, WhatIfResult& result, const ValidationOptions& options, EventSink& events,
              const std::stop_token& stop, Timing timing);

/// The bottleneck by the runs: their differences of time a sample, as in a profile [DS-Analyzer, section 3.2].
struct MeasuredVerdict {
  std::string bottleneck;
  bool too_close = false;
};
/// `full` and `cached` in samples/s with their intervals; `ingestion` G. Differences below `least` (a share) tell nothing.
MeasuredVerdict measured_verdict(double full, double cached, double ingestion, double least);

/// Errors, coverage and whether the verdict was right, once the measured rate is in. `now` is the answer at the speed that prep had at that minute.
void judge(WhatIfAnswer& answer, const WhatIfAnswer& now, const MeasuredVerdict& verdict);
/// Of all answers.
WhatIfValidation conclude_validation(const std::vector<WhatIfAnswer>& answers, const ValidationOptions& options);

}  // namespace dsanalyze
