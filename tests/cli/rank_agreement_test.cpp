#include "rank_agreement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "command.hpp"
#include "dsanalyze/core/settings.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {
namespace {

/// Settings that two spellings of one option's value may have: what they stand for is compared.
const std::set<std::string> spellings = {"dataset", "accelerator_name", "storage_name"};

std::vector<OptionEntry> options_of_profile() {
  const auto profile = std::ranges::find(commands(), std::string_view("profile"), &CommandEntry::name);
  REQUIRE(profile != commands().end());
  return option_table(*profile).front().options;
}

TEST_CASE("each option of profile is compared among ranks or is a rank's own, and nothing else is in that table") {
  std::map<std::string_view, int> rows;
  for (const RankOption& option : rank_options()) ++rows[option.name];
  for (const OptionEntry& option : options_of_profile()) {
    int found = 0;
    for (const std::string& name : option.names) {
      if (rows.contains(name)) found += rows.extract(name).mapped();
    }
    CHECK_MESSAGE(found == 1, option.names.front());
  }
  for (const auto& [name, count] : rows) FAIL_CHECK("there is no option " << name);
}

TEST_CASE("each setting of a result belongs to one option of that table") {
  std::map<std::string, int> owned;
  for (const RankOption& option : rank_options()) {
    for (const std::string_view setting : option.settings) {
      if (!setting.empty()) ++owned[std::string(setting)];
    }
  }
  ProfileSettings given;
  given.image_key = "jpg";  // written where they are given
  given.label_key = "cls";
  const auto settings = nlohmann::json::parse(to_json(given));
  for (const auto& setting : settings.items())
    CHECK_MESSAGE(owned.extract(setting.key()).empty() == spellings.contains(setting.key()), setting.key());
  CHECK(owned.empty());
}

}  // namespace
}  // namespace dsanalyze::cli
