#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "advice_rig.hpp"
#include "answers.hpp"
#include "base/error.hpp"
#include "models/whatif/whatif.hpp"

using namespace dsanalyze;
using testing::rate_of;

namespace {

/// Of dsanalyze's own loader: fetch is the bottleneck.
ProfileResult own_loader() {
  ProfileResult profile;
  profile.ingestion = rate_of(2000, 20);
  profile.prep = rate_of(1000, 50);
  profile.cache = rate_of(50'000, 0);
  profile.storage = rate_of(400, 4);
  profile.fetch = rate_of(600, 6);
  profile.fetch->cache_fraction = 0.35;
  profile.host.cores = 8;
  profile.settings.storage = profile.settings.prep = Seam::real;
  profile.dataset.mean_sample_bytes = 1e5;
  profile.dataset.bytes = 1'000'000'000;
  profile.dataset.samples = 10'000;
  return profile;
}

std::vector<std::string> names(const ReportCurves& curves) {
  std::vector<std::string> list;
  for (const ReportCurve& curve : curves.axes) list.push_back(curve.name);
  return list;
}

const ReportCurve& axis(const ReportCurves& curves, const std::string& name) { return *std::ranges::find(curves.axes, name, &ReportCurve::name); }

const CurvePoint& point(const ReportCurve& curve, double x) {
  const auto found = std::ranges::find(curve.points, x, &CurvePoint::x);
  REQUIRE(found != curve.points.end());
  return *found;
}

/// At most twelve points by rising x, each once, and one of them is the configuration as measured.
void check_points(const ReportCurves& curves) {
  REQUIRE(curves.base);
  for (const ReportCurve& curve : curves.axes) {
    CAPTURE(curve.name);
    if (!curve.why_absent.empty()) {
      CHECK(curve.points.empty());
      continue;
    }
    CHECK(curve.points.size() > 5);
    CHECK(curve.points.size() <= 12);
    CHECK(std::ranges::adjacent_find(curve.points, std::ranges::greater_equal(), &CurvePoint::x) == curve.points.end());
    CHECK(point(curve, curve.now).samples_per_s == curves.base->samples_per_s);
  }
}

}  // namespace

TEST_CASE("the curves of dsanalyze's own loader are what whatif answers to one change each, and cross where it finds the smallest value") {
  const ProfileResult profile = own_loader();
  const ReportCurves curves = report_curves(profile);
  CHECK(names(curves) == std::vector<std::string>{"cores", "cache_fraction", "accelerator_speed", "storage_factor"});
  check_points(curves);
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.5}};
  question.find = {"cache"};
  const WhatIfResult result = answer(rate_model(profile), question);
  const ReportCurve& cache = axis(curves, "cache_fraction");
  CHECK(point(cache, 0.5).samples_per_s == result.answers.at(1).samples_per_s);
  CHECK(point(cache, 0.5).epoch_seconds == result.answers.at(1).epoch_seconds);
  CHECK(point(cache, 0).bottleneck == "io");
  CHECK(point(cache, 1).bottleneck == "cpu");
  CHECK(*cache.crossing >= *result.found.at(0).value);
  CHECK(*cache.crossing == doctest::Approx(*result.found.at(0).value).epsilon(0.002));
  CHECK(cache.crossing_text.find("60.5 % of the dataset would be enough (35 % now): ") == 0);
  CHECK_FALSE(axis(curves, "storage_factor").crossing);
}

TEST_CASE("the curves of a launched training begin with that of its workers, and an axis that it refuses says why") {
  const ProfileResult profile = testing::prep_bound();
  const ReportCurves curves = report_curves(profile);
  CHECK(names(curves) == std::vector<std::string>{"workers", "cores", "cache_fraction", "accelerator_speed", "storage_factor"});
  check_points(curves);
  WhatIfQuestion question;
  question.workers = {8};
  const ReportCurve& workers = axis(curves, "workers");
  CHECK(workers.points.front().x == 0);
  CHECK(workers.points.back().x == 16);
  CHECK(point(workers, 8).samples_per_s == answer(training_model(profile), question).answers.at(1).samples_per_s);
  CHECK(point(workers, 4).detail == "prep");
  CHECK(workers.crossing.value_or(0) > 4);
  CHECK(axis(curves, "cache_fraction").why_absent.find("storage [S]") != std::string::npos);
}

TEST_CASE("without G, or the number of cores, what needs them has no points; of very many cores few numbers are asked about") {
  ProfileResult profile = own_loader();
  profile.ingestion.reset();
  profile.host.cores = 0;
  const ReportCurves less = report_curves(profile);
  check_points(less);
  CHECK_FALSE(axis(less, "cores").why_absent.empty());
  CHECK_FALSE(axis(less, "accelerator_speed").why_absent.empty());
  CHECK_FALSE(axis(less, "cache_fraction").points.empty());
  profile.host.cores = 1000;
  const ReportCurves many = report_curves(profile);
  check_points(many);
  CHECK(axis(many, "cores").points.front().x == 1);
  CHECK(axis(many, "cores").points.back().x > 3000);
}

TEST_CASE("where a resource is not the bottleneck, the curve crosses below what is there") {
  ProfileResult profile = own_loader();
  profile.ingestion = rate_of(300, 3);
  const ReportCurves curves = report_curves(profile);
  CHECK(*axis(curves, "cache_fraction").crossing == 0);
  CHECK(*axis(curves, "cores").crossing <= 8);
}

TEST_CASE("a profile that lacks a rate has no curves") {
  ProfileResult profile = own_loader();
  profile.storage.reset();
  CHECK_THROWS_AS(report_curves(profile), UsageError);
}
