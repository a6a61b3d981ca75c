#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"
#include "core/rates.hpp"

namespace dsanalyze {

/// What a model says of a profile while one thing changes and all else stays: the lines and sliders of a report (models/whatif/report_curves.cpp).
struct CurvePoint {
  double x = 0;                     ///< in the axis' unit
  std::optional<double> ingestion;  ///< G
  double prep = 0;                  ///< P
  double fetch = 0;                 ///< F; 0: not known
  double samples_per_s = 0;
  Interval ci95_samples_per_s;
  double epoch_seconds = 0;  ///< 0: not known
  double extrapolation = 1;  ///< by which factor some resource goes beyond what was measured
  std::string bottleneck;    ///< gpu, cpu, io
  std::string detail{};      ///< as WhatIfAnswer::detail
  bool too_close = false;    ///< the bottleneck is inconclusive
  StallShares stalls{};      ///< meaningful when G is known
};

struct ReportCurve {
  std::string name;                  ///< as in WhatIfChange: workers, cores, cache_fraction, accelerator_speed, storage_factor
  std::vector<CurvePoint> points{};  ///< x rises; one of them is at `now`
  double now = 0;                    ///< where the measured configuration stands
  std::optional<double> crossing{};  ///< from here on its resource is no longer the bottleneck
  std::string crossing_text{};       ///< what that means, or why there is none: a sentence; empty: not asked
  std::string why_absent{};          ///< why there are no points
};

struct ReportCurves {
  std::optional<CurvePoint> base;   ///< as measured; nothing: the models refuse the profile
  std::vector<ReportCurve> axes{};  ///< in the order above; workers of a launched training alone
};

}  // namespace dsanalyze
