#include "cli/commands/saved_profiles.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace dsanalyze;

namespace {

ProfileResult profile_with_rates() {
  ProfileResult profile;
  const auto rate = [](double value) {
    RateRecord record;
    record.samples_per_s = value;
    record.ci95_samples_per_s = {value, value};
    return record;
  };
  profile.prep = rate(1000);
  profile.cache = rate(50'000);
  profile.storage = rate(400);
  return profile;
}

std::string command_for(const std::string& path) {
  return nlohmann::json::parse(cli::live_model_json(profile_with_rates(), path))["command"].get<std::string>();
}

}  // namespace

TEST_CASE("the command that a page shows names the profile, quoted for a shell, or none for the last profile") {
  CHECK(command_for("") == "dsanalyze whatif");
  CHECK(command_for("results/profile.json") == "dsanalyze whatif results/profile.json");
  CHECK(command_for("it's $(here).json") == "dsanalyze whatif 'it'\\''s $(here).json'");
  CHECK(command_for("--json") == "dsanalyze whatif ./--json");
}

TEST_CASE("a profile without one of the rates that the equations need has no live model") {
  ProfileResult profile = profile_with_rates();
  profile.storage.reset();
  CHECK(cli::live_model_json(profile, "p.json").empty());
}
