#include "cli/commands/saved_profiles.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace dsanalyze;

TEST_CASE("the command that a page shows names the profile, quoted for a shell") {
  const auto command_for = [](const std::string& path) { return cli::report_input("label", path, {}).whatif_command; };
  CHECK(command_for("results/profile.json") == "dsanalyze whatif results/profile.json");
  CHECK(command_for("it's $(here).json") == "dsanalyze whatif 'it'\\''s $(here).json'");
  CHECK(command_for("--json") == "dsanalyze whatif ./--json");
}

TEST_CASE("a profile that the models refuse is shown without curves") {
  const ReportInput input = cli::report_input("label", "p.json", {});
  CHECK_FALSE(input.curves.base);
  CHECK(input.curves.axes.empty());
}
