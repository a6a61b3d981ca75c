#include <doctest/doctest.h>

#include <array>

#include "../base/texts.hpp"
#include "golden.hpp"
#include "report_samples.hpp"

using namespace dsanalyze;
using namespace dsanalyze::test;
using testing::check_golden_file;
using testing::says;

namespace {

ReportInput slower(const std::string& label) {
  ReportInput input = full_input(label);
  auto& profile = std::get<ProfileResult>(input.record);
  profile.prep->samples_per_s /= 2;
  profile.prep->ci95_samples_per_s = {5050, 5150};
  profile.stalls->prep.fraction = 0.4;
  profile.settings.workers = 11;
  return input;
}

}  // namespace

TEST_CASE("the Markdown of a profile and of two side by side is as its golden file") {
  check_golden_file("report_profile.md", markdown_report(std::array{full_input("full.json")}));
  check_golden_file("report_compared.md", markdown_report(std::array{full_input("before.json"), slower("after.json")}));
}

TEST_CASE("two profiles are compared on the console by ratios to the first and the settings that differ") {
  const std::string text = console_report(std::array{full_input("before.json"), slower("after.json")}, {});
  CHECK(says(text, "0.500x"));
  CHECK(says(text, "workers: 23 | 11"));
  CHECK_FALSE(says(text, "epochs: 4 | 4"));
}

TEST_CASE("interference is told where there is some, beside what was reached") {
  ReportInput input = full_input("full.json");
  auto& profile = std::get<ProfileResult>(input.record);
  profile.attained = ProfileResult::Attained{1198, {1180, 1216}, 1756, {1730, 1782}, {"reading costs cores"}};
  REQUIRE(profile.stalls->interference);
  CHECK(says(markdown_report(std::array{input}), "The difference is interference: reading costs cores."));
  profile.stalls->interference.reset();
  CHECK_FALSE(says(markdown_report(std::array{input}), "The difference is interference"));
}

TEST_CASE("names in Markdown neither make a table's cell nor markup") {
  ReportInput input = full_input("a|b");
  std::get<ProfileResult>(input.record).findings = {{"x", Finding::Severity::error, "a | b\n# c <img src=x> `d`"}};
  const std::string text = markdown_report(std::array{input});
  CHECK(says(text, "a \\| b # c &lt;img src=x\\> \\`d\\`"));
  CHECK_FALSE(says(text, "<img"));
}
