#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.hpp"

namespace dsanalyze {

/// What a model says of one configuration while one factor changes: the lines of a report. The models fill it (models/report_curves.hpp), views show
/// it.
struct CurvePoint {
  double x = 0;                     ///< in the curve's unit
  std::optional<double> ingestion;  ///< G
  double prep = 0;                  ///< P
  double fetch = 0;                 ///< F
  double samples_per_s = 0;         ///< the lowest of them
  Interval ci95_samples_per_s;
  std::string bottleneck;  ///< gpu, cpu, io
};

struct ReportCurve {
  std::vector<CurvePoint> points;  ///< x rises
  double now = 0;                  ///< where the measured configuration stands
  std::optional<double> crossing;  ///< from here on the factor's resource no longer binds (accelerator speed: begins to be held up)
  std::string crossing_text;       ///< what that means, or why there is none: a sentence
};

struct ReportCurves {
  std::optional<ReportCurve> cache;              ///< x: share of the dataset that is cached  [DS-Analyzer, Figure 16]
  std::optional<ReportCurve> cores;              ///< x: cores of prep  [DS-Analyzer, Figure 4]
  std::optional<ReportCurve> accelerator_speed;  ///< x: factor on the accelerators' speed
};

}  // namespace dsanalyze
