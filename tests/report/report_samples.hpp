#pragma once

#include "../core/sample_results.hpp"
#include "report/report.hpp"

namespace dsanalyze::test {

inline ReportCurves sample_curves() {
  ReportCurve curve;
  curve.points = {{0, 20'000, 10'208, 4698, 4698, {4600, 4800}, "io"},
                  {0.35, 20'000, 10'208, 7157, 7157, {7000, 7300}, "io"},
                  {0.55, 20'000, 10'208, 10'208, 10'208, {10'100, 10'300}, "cpu"}};
  curve.now = 0.35;
  curve.crossing = 0.55;
  curve.crossing_text = "With 55 % of the dataset in the cache or more, fetch no longer holds training up (35 % now).";
  return {curve, std::nullopt, std::nullopt};
}

inline ReportInput full_input(const std::string& label) { return {label, full_profile(), sample_curves(), R"({"rates":{}})"}; }

}  // namespace dsanalyze::test
