#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "../base/texts.hpp"
#include "gate/gate.hpp"

using namespace dsanalyze;
using testing::says;

namespace {

GateMetric metric(const std::string& name, double effect, GateVerdict verdict, const std::string& reason) {
  GateMetric made;
  made.name = name;
  made.scale = name.ends_with("stall") ? GateScale::difference : GateScale::ratio;
  made.baseline = made.scale == GateScale::ratio ? 2000 : 0.3;
  made.current = made.scale == GateScale::ratio ? 2000 * (1 + effect) : 0.3 + effect;
  made.observations_baseline = made.observations_current = 6;
  made.effect = effect;
  made.interval = Interval{effect - 0.01, effect + 0.01};
  made.verdict = verdict;
  made.reason = reason;
  return made;
}

GateResult result_of(std::vector<GateMetric> metrics) {
  GateResult result;
  result.tool = {"dsanalyze", "0.1.0", "abc"};
  result.mode = "files";
  result.verdict = GateVerdict::regression;
  result.reason = "P got worse";
  result.baseline = {{"base/a.json"}, 6, 1, {"dsanalyze 0.1.0 (abc)"}, {}};
  result.current = {{"b.json"}, 6, 1, {"dsanalyze 0.1.0 (def)"}, {}};
  result.metrics = std::move(metrics);
  return result;
}

std::size_t lines_of(const std::string& text) { return static_cast<std::size_t>(std::ranges::count(text, '\n')); }

const std::string hostile = "<b>|`x`\x01\xff]]>&\"\n::error::\xef\xbf\xbf%";

}  // namespace

TEST_CASE("in JUnit a regression fails, what cannot be told is skipped, and the counts agree") {
  GateResult result = result_of({metric("P", -0.05, GateVerdict::regression, "5.0 % slower"), metric("S", 0, GateVerdict::cannot_tell, "open"),
                                 metric("full", 0, GateVerdict::no_change, "below 3 %")});
  result.absent = {{"prep-stall", "no accelerator"}};
  const std::string text = gate_junit(result);
  CHECK(says(text, "tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\""));
  CHECK(says(text, "<failure type=\"regression\" message=\"P: -5.0 %"));
  CHECK(says(text, "<skipped message=\"S: "));
  CHECK(says(text, "<skipped message=\"not compared: no accelerator\"/>"));
}

TEST_CASE("hostile text breaks no format") {
  GateResult result = result_of({metric("P", -0.05, GateVerdict::regression, hostile)});
  result.reason = hostile;
  result.baseline.sources = {hostile};
  result.findings = {{"code", Finding::Severity::warning, hostile}};
  const std::string xml = gate_junit(result);
  CHECK_FALSE(says(xml, "<b>"));
  CHECK_FALSE(says(xml, "\x01"));
  CHECK_FALSE(says(xml, "\xff"));
  CHECK_FALSE(says(xml, "\xef\xbf\xbf"));
  CHECK_FALSE(says(xml, "]]>"));
  const std::string markdown = gate_markdown(result);
  CHECK_FALSE(says(markdown, "<b>"));
  for (std::size_t at = markdown.find("<b"); at != std::string::npos; at = markdown.find("<b", at + 1)) FAIL("markup");
  CHECK(says(markdown, "\\|"));
  const std::string github = gate_github_annotations(result);
  CHECK(lines_of(github) == 2);
  CHECK(says(github, "%25"));
  CHECK_FALSE(says(github, "\x01"));
  const auto gitlab = nlohmann::json::parse(gate_gitlab_report(result));
  CHECK(gitlab.size() == 1);
}

TEST_CASE("GitHub gets regressions first, at most nine lines and one that counts the rest") {
  std::vector<GateMetric> metrics;
  for (int i = 0; i < 8; ++i) metrics.push_back(metric("S", 0, GateVerdict::cannot_tell, "open"));
  for (int i = 0; i < 4; ++i) metrics.push_back(metric("P", -0.05, GateVerdict::regression, "slower"));
  const std::string text = gate_github_annotations(result_of(metrics));
  CHECK(lines_of(text) == 10);
  CHECK(text.starts_with("::error title=dsanalyze gate%2C P%3A regression::P: -5.0 %25 "));
  CHECK(says(text, "::notice title=dsanalyze gate%2C more::3 more"));
  CHECK(gate_github_annotations(result_of({metric("P", 0, GateVerdict::no_change, "below")})).empty());
}

TEST_CASE("a GitLab report has one issue for each regression, with a fingerprint of its own that stays") {
  const auto report = nlohmann::json::parse(
      gate_gitlab_report(result_of({metric("P", -0.05, GateVerdict::regression, "slower"), metric("full", -0.04, GateVerdict::regression, "slower"),
                                    metric("S", 0, GateVerdict::no_change, "below")})));
  REQUIRE(report.size() == 2);
  CHECK(report[0]["severity"] == "major");
  CHECK(report[0]["fingerprint"] != report[1]["fingerprint"]);
  for (const char* field : {"description", "check_name", "fingerprint", "severity", "location"}) CHECK(report[0].contains(field));
  CHECK(gate_gitlab_report(result_of({metric("P", 0, GateVerdict::no_change, "below")})) == "[]\n");
}

TEST_CASE("a comparison of nothing is undecided in every view, not an empty report that reads as a pass") {
  GateResult nothing = result_of({});
  nothing.reason = "there is no baseline yet";
  CHECK(says(gate_junit(nothing), "tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\""));
  CHECK(says(gate_junit(nothing), "<skipped message=\"there is no baseline yet\"/>"));
  const auto report = nlohmann::json::parse(gate_gitlab_report(nothing));
  REQUIRE(report.size() == 1);
  CHECK(report[0]["severity"] == "info");
}

TEST_CASE("Markdown shows every metric with its unit: percent for rates, points for stalls") {
  const std::string text = gate_markdown(
      result_of({metric("P", -0.05, GateVerdict::regression, "5.0 % slower"), metric("prep-stall", 0.02, GateVerdict::cannot_tell, "open")}));
  CHECK(says(text, "| P | 2,000 | 1,900 | -5.0 % | -6.0 to -4.0 | :x: regression | 5.0 % slower |"));
  CHECK(says(text, "| prep-stall | 30 % | 32 % | +2.0 points | +1.0 to +3.0 | :grey_question: cannot tell | open |"));
}
