#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gate/judge.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;

namespace {

/// A change of P (or of another metric) that is known to +- half at one-sided 1 %.
GateMetric judged(double effect, double half, const std::string& name = "P", double min_effect = 0.03) {
  Compared compared;
  compared.kind = metric_kind(name);
  compared.observations_baseline = compared.observations_current = 10;
  compared.fewest_runs = 10;
  const bool ratio = compared.kind.scale == GateScale::ratio;
  compared.contrast.estimate = ratio ? std::log1p(effect) : effect;
  compared.contrast.errors = {{half / 2.3263 * half / 2.3263, 1e6}};
  compared.contrast.deviation = half * 2;
  Judgement judgement;
  judgement.min_effect = min_effect;
  judgement.level /= compared.kind.weight;  // a metric alone has the whole level
  return judge(compared, judgement);
}

}  // namespace

TEST_CASE("a sound slow-down of at least the least effect is a regression") {
  const GateMetric metric = judged(-0.05, 0.02);
  CHECK(metric.verdict == GateVerdict::regression);
  CHECK(metric.reason == "5.0 % slower");
  CHECK_FALSE(metric.more.has_value());
}

TEST_CASE("an interval that reaches 0 is no regression, however large the estimate") {
  const GateMetric metric = judged(-0.20, 0.5);
  CHECK(metric.verdict == GateVerdict::cannot_tell);
  REQUIRE(metric.more.has_value());
  CHECK(*metric.more > 0);
}

TEST_CASE("a sound slow-down below the least effect, by its whole interval, is no change") {
  CHECK(judged(-0.02, 0.005).verdict == GateVerdict::no_change);
}

TEST_CASE("a sound slow-down that may or may not reach the least effect cannot be told") {
  const GateMetric metric = judged(-0.025, 0.02);
  CHECK(metric.verdict == GateVerdict::cannot_tell);
  CHECK(metric.reason.find("slower for sure") != std::string::npos);
}

TEST_CASE("a sound speed-up is an improvement") {
  CHECK(judged(0.05, 0.02).verdict == GateVerdict::improvement);
  CHECK(judged(0.05, 0.02).reason == "5.0 % faster");
}

TEST_CASE("no change is shown, not assumed") {
  CHECK(judged(0, 0.02).verdict == GateVerdict::no_change);
  CHECK(judged(0, 0.04).verdict == GateVerdict::cannot_tell);
}

TEST_CASE("more stall is worse, in points") {
  const GateMetric metric = judged(0.05, 0.02, "prep-stall");
  CHECK(metric.verdict == GateVerdict::regression);
  CHECK(metric.reason == "5.0 points more stall");
  CHECK(judged(-0.05, 0.02, "prep-stall").verdict == GateVerdict::improvement);
}

TEST_CASE("what never scattered and never changed is no change") { CHECK(judged(0, 0, "fetch-stall").verdict == GateVerdict::no_change); }

TEST_CASE("runs that are not trusted show their change and decide nothing") {
  Compared compared{metric_kind("P"), 7, 6, 10, 10, {}};
  compared.contrast.estimate = -0.5;
  compared.contrast.errors = {{0.0001, 20}};
  Judgement judgement;
  judgement.distrusted = "a.json is not trusted";
  const GateMetric metric = judge(compared, judgement);
  CHECK(metric.verdict == GateVerdict::cannot_tell);
  CHECK(metric.reason == "a.json is not trusted");
  CHECK(metric.interval.has_value());
}

TEST_CASE("N is gated where the ranks part the dataset, and elsewhere is named as not there") {
  ProfileResult profile;
  CHECK_FALSE(metric_value(profile, metric_kind("N")).value.has_value());
  CHECK(metric_value(profile, metric_kind("N")).missing.find("--partition") != std::string::npos);
  profile.network.emplace().samples_per_s = 1900;
  CHECK(metric_value(profile, metric_kind("N")).value == 1900);
}

TEST_CASE("metrics are chosen by name, G never") {
  CHECK(chosen_metrics({}).size() == 6);
  CHECK(chosen_metrics({"all"}).size() == metric_kinds().size());
  CHECK(chosen_metrics({"full", "P"}).front().name == "P");
  CHECK(chosen_metrics({"S", "N"}).back().name == "N");
  CHECK(std::ranges::none_of(chosen_metrics({}), [](const MetricKind& kind) { return kind.name == "N"; }));
  CHECK_THROWS_WITH_AS(chosen_metrics({"G"}), doctest::Contains("never gated"), UsageError);
  CHECK_THROWS_WITH_AS(chosen_metrics({"prep-stal"}), doctest::Contains("did you mean \"prep-stall\""), UsageError);
}
