#include <doctest/doctest.h>

#include <algorithm>

#include "models/whatif/whatif.hpp"

using namespace dsanalyze;

namespace {

constexpr const char* typed_rates = "G=12000,P=10208,C=251952,S=4698.5";
constexpr const char* curves_base = "cores=24,accelerators=8,dataset=146GB,cache=35%";

const CurvePoint* point_at(const ReportCurve& curve, double x) {
  const auto place = std::ranges::find_if(curve.points, [&](const CurvePoint& point) { return point.x == doctest::Approx(x); });
  return place == curve.points.end() ? nullptr : &*place;
}

}  // namespace

TEST_CASE("each curve of a report holds the configuration as it stands and the point where its factor no longer binds") {
  const RateModel model = rate_model_from_text(typed_rates, curves_base);
  const ReportCurves curves = report_curves(model);
  REQUIRE(curves.cache);
  REQUIRE(curves.cores);
  REQUIRE(curves.accelerator_speed);
  const double reached = answer(model, {}).answers.at(0).samples_per_s;
  for (const ReportCurve* curve : {&*curves.cache, &*curves.cores, &*curves.accelerator_speed}) {
    CHECK(std::ranges::is_sorted(curve->points, {}, &CurvePoint::x));
    const CurvePoint* now = point_at(*curve, curve->now);
    REQUIRE(now != nullptr);
    CHECK(now->samples_per_s == doctest::Approx(reached));
    REQUIRE(curve->crossing);
    CHECK(point_at(*curve, *curve->crossing) != nullptr);
  }
}

TEST_CASE("a report's cache curve crosses where whatif finds the smallest cache, and names the bottleneck there") {
  const RateModel model = rate_model_from_text(typed_rates, curves_base);
  WhatIfQuestion question;
  question.find = {"cache"};
  const WhatIfFound found = answer(model, question).found.at(0);
  const ReportCurve curve = *report_curves(model).cache;
  CHECK(*curve.crossing >= *found.value);
  CHECK(*curve.crossing == doctest::Approx(*found.value).epsilon(0.002));
  CHECK(curve.crossing_text.find("prep is the bottleneck at 10,208 samples/s [P]") != std::string::npos);
  CHECK(point_at(curve, 0)->bottleneck == "io");
  CHECK(point_at(curve, 1)->bottleneck == "cpu");
}

TEST_CASE("a curve has each of its points once, also where the configuration or the crossing is one of its steps") {
  for (const double cached : {0.0, 0.05, 0.35, 1.0}) {
    CAPTURE(cached);
    for (const char* const rates : {typed_rates, "G=1000,P=10208,C=251952,S=4698.5"}) {
      RateModel model = rate_model_from_text(rates, curves_base);
      model.cache_fraction = cached;
      const ReportCurves curves = report_curves(model);
      for (const auto* curve : {&curves.cache, &curves.cores, &curves.accelerator_speed}) {
        REQUIRE(curve->has_value());
        const auto& points = (*curve)->points;
        CHECK(std::ranges::adjacent_find(points, {}, &CurvePoint::x) == points.end());
      }
    }
  }
}

TEST_CASE("where a factor does not bind its curve says that there is enough") {
  const ReportCurves curves = report_curves(rate_model_from_text("G=1000,P=10208,C=251952,S=4698.5", curves_base));
  CHECK(*curves.cache->crossing == 0);
  CHECK(curves.cache->crossing_text.find("would be enough") != std::string::npos);
  CHECK(curves.accelerator_speed->crossing_text.find("up to 7.16x") != std::string::npos);
}

TEST_CASE("a curve whose base the rates lack is left out") {
  const ReportCurves curves = report_curves(rate_model_from_text("P=10208,C=251952,S=4698.5", ""));
  CHECK(curves.cache);
  CHECK_FALSE(curves.cores);
  CHECK_FALSE(curves.accelerator_speed);
}
