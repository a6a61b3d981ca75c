#include <doctest/doctest.h>

#include <sstream>

#include "../core/sample_results.hpp"
#include "golden.hpp"
#include "report/console/console_table.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::check_golden;

TEST_CASE("a comparison is told as its golden file has it") { check_golden("gate", console_summary(test::full_gate(), {})); }

TEST_CASE("a comparison without a baseline tells where it was looked for") {
  GateResult result = test::full_gate();
  result.baseline = {{"baselines"}, 0, 0, {}, std::nullopt};
  const std::string text = console_summary(result, {});
  CHECK(text.find("baseline  no runs yet in baselines\n") != std::string::npos);
}

TEST_CASE("a comparison keeps to the width, and names in it cannot move the cursor") {
  GateResult result = test::full_gate();
  result.current.sources = {"a folder \x1b[2J whose name is longer than one line of a terminal of eighty columns can hold, by far and then some"};
  result.reason = "P \x1b]0;title\a got worse";
  const std::string text = console_summary(result, {});
  CHECK(text.find('\x1b') == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
}
