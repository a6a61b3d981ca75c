#include "cli/options/rank_options.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands/command.hpp"
#include "cli/options/option_table.hpp"
#include "core/records/settings.hpp"
#include "core/workload.hpp"
#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::cli {
namespace {

/// Settings that two spellings of one option's value may have: what they stand for is compared.
const std::set<std::string> spellings = {"dataset", "accelerator_name", "storage_name"};

TEST_CASE("each setting of a result belongs to one option of profile") {
  std::map<std::string, int> owned;
  const std::vector<ActionEntry> profile = actions_of("profile");
  for (const Option* option : profile.front().options)
    for (const std::string& setting : settings_of(*option)) ++owned[setting];
  for (const auto& each : owned) {
    CHECK_MESSAGE(each.second == 1, each.first);
    CHECK_NOTHROW(settings_from_json("{\"" + each.first + "\": null}", "a setting"));  // other names are refused
  }
  const auto settings = nlohmann::json::parse(to_json(ProfileSettings()));
  for (const auto& setting : settings.items()) CHECK_MESSAGE(owned.contains(setting.key()) != spellings.contains(setting.key()), setting.key());
}

TEST_CASE("ranks are told of an option's 0, and of nothing where an option was not given") {
  DatasetSpec spec;
  spec.name = "small";
  spec.samples = 4;
  spec.mean_sample_bytes = 100;
  ProfileInputs inputs;
  inputs.index = make_emulated_index(spec, 0, 1, 1);
  inputs.settings.dataset = "emulated:small";
  const auto value_of = [&inputs](std::string_view name) {
    const std::vector<AgreedValue> values = agreed_values(inputs);
    return std::ranges::find(values, name, &AgreedValue::name)->value;
  };
  inputs.settings.seed = 0;
  inputs.settings.error_budget = 0;
  CHECK(value_of("--seed") == "0");
  CHECK(value_of("--error-budget") == "0");
  for (const auto* const absent : {"--trials", "--workload", "--observed", "--stop-at", "--subset", "content_sample_digest"})
    CHECK_MESSAGE(value_of(absent) == "nothing", absent);
  CHECK(value_of("--network") == "real");  // without the rate that it does not have
  inputs.settings.trials = 4;
  inputs.settings.time_budget_seconds = 0.5;
  CHECK(value_of("--trials") == "4");
  CHECK(value_of("--time-budget") == "0.5");
}

}  // namespace
}  // namespace dsanalyze::cli
