#pragma once

#include "../core/sample_results.hpp"
#include "report/report.hpp"

namespace dsanalyze::test {

inline ReportCurves sample_curves() {
  const auto point = [](double x, double fetch, double rate, Interval ci95, const char* bottleneck) {
    return CurvePoint{x, 20'000, 10'208, fetch, rate, ci95, 0, 1, bottleneck};
  };
  ReportCurve curve{"cache_fraction"};
  curve.points = {point(0, 4698, 4698, {4600, 4800}, "io"), point(0.35, 7157, 7157, {7000, 7300}, "io"),
                  point(0.55, 10'208, 10'208, {10'100, 10'300}, "cpu")};
  curve.now = 0.35;
  curve.crossing = 0.55;
  curve.crossing_text = "55 % of the dataset would be enough (35 % now): prep is the bottleneck.";
  return {curve.points[1], {curve}};
}

/// Of a launched training: F is not known.
inline ReportCurves training_curves() {
  ReportCurve workers{"workers"};
  workers.points = {{1, 190, 50, 0, 50, {49, 51}, 0, 1, "cpu", "latency"}, {4, 190, 200, 0, 185, {180, 190}, 0, 1, "gpu", "accelerator"}};
  workers.now = 1;
  ReportCurve storage{"storage_factor"};
  storage.why_absent = "--storage: what storage supplies is not in the profile";
  return {workers.points[0], {workers, storage}};
}

inline ReportInput full_input(const std::string& label) { return {label, full_profile(), sample_curves(), "dsanalyze whatif " + label}; }

}  // namespace dsanalyze::test
