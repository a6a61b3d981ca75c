#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gate/judge.hpp"
#include "simulated_profiles.hpp"

using namespace dsanalyze;
using namespace dsanalyze::gate;
using enum GateVerdict;

namespace {

GateMetric metric_of(const std::string& name, GateVerdict verdict) {
  GateMetric metric;
  metric.name = name;
  metric.verdict = verdict;
  return metric;
}

GateResult concluded(const std::vector<GateMetric>& metrics, const Reservations& reservations = {}) {
  GateResult result;
  result.metrics = metrics;
  conclude(result, {}, reservations);
  return result;
}

Compared compared_of(const std::string& name, std::size_t observations) {
  Compared compared;
  compared.kind = metric_kind(name);
  compared.observations_baseline = compared.observations_current = observations;
  return compared;
}

}  // namespace

TEST_CASE("the conclusion is the worst of the metrics' verdicts, and names those that have it") {
  const auto is = [](const GateResult& result, GateVerdict verdict, const std::string& reason) {
    CHECK(result.verdict == verdict);
    CHECK(result.reason == reason);
  };
  is(concluded({metric_of("P", regression), metric_of("full", improvement), metric_of("S", cannot_tell)}), regression, "P got worse");
  is(concluded({metric_of("P", regression), metric_of("full", regression)}), regression, "P, full got worse");
  is(concluded({metric_of("P", cannot_tell), metric_of("full", improvement)}), cannot_tell, "P is undecided");
  is(concluded({metric_of("P", cannot_tell), metric_of("full", cannot_tell)}), cannot_tell, "P, full are undecided");
  is(concluded({metric_of("P", no_change), metric_of("full", improvement)}), improvement, "full got better, nothing got worse");
  is(concluded({metric_of("P", no_change)}), no_change, "every metric stayed within ± 3 %");
  is(concluded({}), cannot_tell, "no metric is there on both sides");
}

TEST_CASE("a metric that was asked for and is absent leaves the whole undecided, unless another got worse") {
  GateOptions options;
  options.metrics = {"P", "N"};
  GateResult result;
  result.metrics = {metric_of("P", no_change)};
  result.absent = {{"N", "was not measured"}};
  conclude(result, options, {});
  CHECK(result.verdict == cannot_tell);
  CHECK(result.reason == "N was asked for and is not there on both sides");
  result.metrics = {metric_of("P", regression)};
  conclude(result, options, {});
  CHECK(result.verdict == regression);
  result.metrics = {metric_of("P", no_change)};
  conclude(result, {}, {});
  CHECK(result.verdict == no_change);
}

TEST_CASE("what a verdict is to be read with is added to its reason, and to no other") {
  const Reservations far_off{"3 of 40 runs (P) lay far off", false};
  CHECK(concluded({metric_of("P", no_change)}, far_off).reason == "every metric stayed within ± 3 %, but 3 of 40 runs (P) lay far off");
  CHECK(concluded({metric_of("P", cannot_tell)}, far_off).reason == "P is undecided");
  const std::string first = concluded({metric_of("P", regression)}, {"", true}).reason;
  CHECK(first.starts_with("P got worse; all runs of one side came first"));
  CHECK(concluded({metric_of("P", cannot_tell)}, {"", true}).reason == "P is undecided");
}

TEST_CASE("observations far off are counted from the least effect on, in either direction, and the metric with most of them says how many") {
  std::vector<Compared> all{compared_of("P", 10), compared_of("S", 10), compared_of("full", 10)};
  all[0].contrast.far_off = {0.03, 0.0299};
  all[2].contrast.far_off = {-0.5, 0.4, 0.001};
  Judgement judgement;
  std::vector<Finding> findings;
  CHECK(find_far_off(all, judgement, findings) == "2 of 20 runs (P, full) lay far off the others and hardly counted");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].message.starts_with("Up to 2 runs far off the others (P, full) hardly counted"));
  judgement.unit = GateUnit::pair;
  CHECK(find_far_off(all, judgement, findings) == "2 of 10 pairs (P, full) lay far off the others and hardly counted");
  findings.clear();
  CHECK(find_far_off({compared_of("S", 10)}, judgement, findings).empty());
  CHECK(findings.empty());
}

TEST_CASE("a scatter below a tenth of the runs' own errors is raised to it, with the fewest degrees of freedom there are") {
  Series series{metric_kind("P"), {}, {}, 0.04, 0.09};
  Compared compared = compared_of("P", 4);
  compared.contrast.errors = {{1e-6, 7}, {2e-6, 3}};
  compared.contrast.deviation = 0.001;
  bound_below(compared, series, 4, 9);
  const double least = 0.01 * (0.04 / 4 + 0.09 / 9);
  CHECK(compared.fewest_runs == 4);
  CHECK(compared.least_error == doctest::Approx(least));
  REQUIRE(compared.contrast.errors.size() == 3);
  CHECK(compared.contrast.errors[2].value == doctest::Approx(least - 3e-6));
  CHECK(compared.contrast.errors[2].degrees == 3);
  CHECK(compared.contrast.deviation == doctest::Approx(std::sqrt(least * 4)));
}

TEST_CASE("a scatter above a tenth of the runs' own errors stays, and none stays none") {
  Series series{metric_kind("P"), {}, {}, 0.04, 0.09};
  Compared compared = compared_of("P", 4);
  compared.contrast.errors = {{1e-3, 7}};
  bound_below(compared, series, 4, 9);
  CHECK(compared.contrast.errors.size() == 1);
  compared.contrast.errors.clear();
  bound_below(compared, series, 4, 9);
  CHECK_FALSE(compared.contrast.has_scatter());
}

TEST_CASE("an interval is as wide as its metric's part of the level asks") {
  for (const char* const name : {"P", "prep-stall"}) {
    CAPTURE(name);
    Compared compared = compared_of(name, 10);
    compared.fewest_runs = 10;
    compared.contrast.estimate = 0.01;
    compared.contrast.errors = {{1e-4, 1e7}};
    Judgement judgement;
    judgement.level = 0.02275 / compared.kind.weight;  // two deviations of a normal distribution
    const GateMetric metric = judge(compared, judgement);
    REQUIRE(metric.interval.has_value());
    const auto effect = [&](double value) { return compared.kind.scale == GateScale::ratio ? std::expm1(value) : value; };
    CHECK(metric.interval->low == doctest::Approx(effect(0.01 - 0.02)).epsilon(0.001));
    CHECK(metric.interval->high == doctest::Approx(effect(0.01 + 0.02)).epsilon(0.001));
  }
}

TEST_CASE("the first run that is not trusted is named with the first error that it found, unless such runs are accepted") {
  std::vector<GateRun> baseline{{"a.json", test::plain_profile()}};
  std::vector<GateRun> current{{"b.json", test::plain_profile()}, {"c.json", test::plain_profile()}};
  CHECK(distrust(baseline, current, {}).empty());
  current[1].profile.trusted = false;
  CHECK(distrust(baseline, current, {}) == "c.json is not trusted; measure it again, leave it out, or --allow-untrusted");
  current[1].profile.findings = {{"slow-disk", Finding::Severity::warning, ""}, {"other-work", Finding::Severity::error, ""}};
  CHECK(distrust(baseline, current, {}) == "c.json is not trusted (other-work); measure it again, leave it out, or --allow-untrusted");
  GateOptions accepting;
  accepting.untrusted = Untrusted::accept;
  CHECK(distrust(baseline, current, accepting).empty());
}

TEST_CASE("a metric that runs lack is said to be missing in one, in some or in all of a side") {
  const auto missing = [](std::size_t lacking, std::size_t runs) {
    std::vector<GateRun> baseline{{"a.json", test::plain_profile()}};
    baseline[0].profile.prep.emplace().samples_per_s = 2000;
    std::vector<GateRun> current(runs, baseline[0]);
    for (std::size_t run = 0; run < lacking; ++run) current[run].profile.prep.reset();
    GateOptions options;
    options.metrics = {"P"};
    const Collected collected = collect(baseline, current, options);
    CHECK(collected.series.empty() == (lacking > 0));
    return collected.absent.empty() ? "" : collected.absent[0].reason;
  };
  CHECK(missing(0, 3).empty());
  CHECK(missing(1, 1) == "was not measured in the current run");
  CHECK(missing(2, 3) == "was not measured in 2 of the 3 current runs");
  CHECK(missing(3, 3) == "was not measured in all 3 current runs");
}
