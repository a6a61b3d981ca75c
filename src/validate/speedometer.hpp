#pragma once

#include <map>
#include <optional>
#include <stop_token>

#include "base/clock.hpp"
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

/// How fast prep is while a set-up runs, over the profile: a CPU that others share drifts by several percent within minutes, which is no error of a
/// prediction. Before and after the run P is gauged at the set-up's own number of cores (at the profile's where it measured no P of them: a P that
/// was only fitted stays what it is, its error is one of the prediction); while it runs, a probe tells what a sample takes on these cores, as it
/// does during the gauges. P times the probe's seconds is the same however fast the cores are, so its mean over all gauges so far, over the probe's
/// seconds during the run, is P then. Emulated and null prep only wait: their speed does not change. One thread at a time.
class Speedometer {
 public:
  Speedometer(const ProfileInputs& base, const ProfileResult& profile, const std::stop_token& stop, Timing timing);

  /// What begin() and end() of one set-up take together.
  static double seconds(const ProfileResult& profile);

  /// Right before the answer's set-up runs.
  void begin(const WhatIfAnswer& answer);
  /// Right after it has run: P on average while it did, over the profile's.
  double end();
  /// P of the answer's number of cores, of all its jobs together; of the latest begin() and end() where they gauged it, otherwise gauged now, once
  /// for each number of them. The answer's own where prep only waits.
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

}  // namespace dsanalyze
