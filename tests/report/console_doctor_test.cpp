#include <doctest/doctest.h>

#include <sstream>

#include "../core/sample_results.hpp"
#include "golden.hpp"
#include "report/console/console_table.hpp"
#include "report/report.hpp"

using namespace dsanalyze;
using testing::check_golden;

TEST_CASE("an examination tells the gravest first, with the commands that fix it") {
  const DoctorResult result = test::full_examination();
  check_golden("doctor", console_summary(result, {}, DoctorDetail::usual));
  check_golden("doctor_verbose", console_summary(result, {}, DoctorDetail::all));
}

TEST_CASE("an examination keeps to the width but for its commands, and names in it cannot move the cursor") {
  DoctorResult result = test::full_examination();
  result.checks[0].found = "a mount called \x1b[2J and many more words than one line of a terminal of eighty columns can hold at once";
  result.checks[0].commands = {{DoctorCommand::Where::here, "echo $'\\033'\x1b"}};
  const std::string text = console_summary(result, {}, DoctorDetail::all);
  CHECK(text.find('\x1b') == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
}

TEST_CASE("colour changes no letter of an examination") {
  const DoctorResult result = test::full_examination();
  std::string coloured = console_summary(result, {Colour::on, 80}, DoctorDetail::usual);
  for (std::size_t at = 0; (at = coloured.find('\x1b')) != std::string::npos;) coloured.erase(at, coloured.find('m', at) + 1 - at);
  CHECK(coloured == console_summary(result, {}, DoctorDetail::usual));
}
