#pragma once

#include <map>
#include <optional>
#include <stop_token>

#include "dsanalyze/base/clock.hpp"
#include "dsanalyze/core/whatif_result.hpp"
#include "dsanalyze/profile/profiler.hpp"

namespace dsanalyze {

/// How fast prep is while a set-up runs, over the profile: a CPU that others share drifts by several percent within minutes, by other shares on one
/// core than on all, which is no error of a prediction. Gauged before and after each run, at the set-up's own number of cores where the profile
/// measured P of them (a P that was only fitted stays what it is: its error is one of the prediction), at the profile's number of them otherwise.
/// Emulated and null prep only wait: their speed does not change. One thread at a time.
class Speedometer {
 public:
  Speedometer(const ProfileInputs& base, const ProfileResult& profile, const std::stop_token& stop, Timing timing);

  /// What begin() and end() of one set-up take together.
  static double seconds(const ProfileResult& profile);

  /// Before the answer's set-up runs.
  void begin(const WhatIfAnswer& answer);
  /// After it has run: P on average while it did, over the profile's.
  double end();
  /// P of the answer's number of cores; of the latest begin() and end() where they gauged it, otherwise gauged now, once for each number of them. The
  /// answer's own where prep only waits.
  double prep(const WhatIfAnswer& answer);

 private:
  [[nodiscard]] int cores_of(const WhatIfAnswer& answer) const;
  double gauge(int cores);

  const ProfileResult& m_profile;
  std::map<int, double> m_profiled;  ///< P by cores, measured
  std::optional<PrepGauge> m_gauge;
  int m_cores = 0;     ///< of the latest begin()
  double m_last = 0;   ///< P of m_cores, gauged last
  double m_while = 0;  ///< the mean of the latest begin() and end()
  std::map<int, double> m_others;
};

}  // namespace dsanalyze
