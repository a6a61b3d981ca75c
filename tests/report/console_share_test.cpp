#include <doctest/doctest.h>

#include <sstream>

#include "../core/sample_results.hpp"
#include "golden.hpp"
#include "report/console/console_table.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::check_golden;

TEST_CASE("what a group shared is told in a sentence, a table of its jobs, and what went wrong") {
  check_golden("share", console_summary(test::full_share(), {}));
}

TEST_CASE("what a group shared keeps to the width, and names in it cannot move the cursor") {
  ShareResult result = test::full_share();
  result.dataset.path = "/data/\x1b[2Jphotos";
  result.terms.prep = "anything\n\x1b[1m";
  for (const int width : {40, 80}) {
    const std::string text = console_summary(result, {Colour::off, width});
    CHECK(text.find('\x1b') == std::string::npos);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= static_cast<std::size_t>(width));
  }
}

TEST_CASE("a command that attached and took no batch is told of, however it ended") {
  ShareResult result = test::full_share();
  result.commands = {
      {0, 0, std::nullopt, true, 0}, {1, 3, std::nullopt, true, 0}, {2, 0, std::nullopt, true, 1}, {3, 0, std::nullopt, true, std::nullopt}};
  const std::string text = console_summary(result, {Colour::off, 100});
  CHECK(text.find("the command of job 0 attached, took no batch, and ended with exit status 0") != std::string::npos);
  CHECK(text.find("the command of job 1 attached, took no batch, and ended with exit status 3") != std::string::npos);
  CHECK(text.find("the command of job 2") == std::string::npos);
  CHECK(text.find("the command of job 3") == std::string::npos);
}

TEST_CASE("of a dependent group it is told to how many jobs each prepared sample was given") {
  ShareResult result = test::full_share();
  result.terms.share = "dependent";
  result.dependent = ShareDependentRecord{5000, 18'000, 12'000, 2500, "refcnt", 600, 64, 100'000'000};
  const std::string text = console_summary(result, {Colour::off, 300});
  CHECK(text.find("each prepared sample was given to 1.50 jobs") != std::string::npos);
  CHECK(text.find("the store (refcnt,") != std::string::npos);
  CHECK(text.find("in batches of 32 where a job does not say") != std::string::npos);
}

TEST_CASE("a group that no job came to is reported briefly") {
  ShareResult result = test::full_share();
  result.jobs.clear();
  result.commands.clear();
  result.end = "interrupted";
  result.late_reports = result.refused = result.batches_taken_over = 0;
  const std::string text = console_summary(result, {});
  CHECK(text.find("interrupted") != std::string::npos);
  CHECK(text.find("late") == std::string::npos);
  CHECK(text.find("taken over") == std::string::npos);
}
