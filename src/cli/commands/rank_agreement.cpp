#include "rank_agreement.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "base/text/text.hpp"
#include "cli/options/option_table.hpp"
#include "share/load_plan.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::size_t most_value = 160;  // characters: all values together have to fit into an introduction

std::string setting_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string list;
    for (const nlohmann::json& item : value) list += (list.empty() ? "" : ",") + setting_text(item);
    return list;
  }
  if (value.is_object() && value.contains("fraction")) return format_share(value.at("fraction").get<double>());
  if (value.is_object() && value.contains("bytes")) return fmt::format("{} bytes", value.at("bytes").get<Bytes>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_null() ? "" : value.dump();
}

/// What the option says, in the words of a result; what it leaves open is left out.
std::string option_text(const Option& option, const nlohmann::json& settings) {
  const std::vector<std::string> decided = settings_of(option);
  std::string text;
  for (const std::string& name : decided) {
    if (!settings.contains(name)) continue;
    const nlohmann::json& setting = settings.at(name);
    const bool is_zero = setting.is_number() && setting.get<double>() == 0;
    // What comes after the first setting belongs to some of its values only: to "emulated" and not to "real".
    const bool says_nothing = is_zero && (name != decided.front() || option.zero == ZeroMeans::nothing);
    const std::string word = says_nothing ? "" : setting_text(setting);
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text.empty() ? "nothing" : text;
}

/// One line, whatever names of files have in them.
std::string short_line(std::string_view text) {
  std::string line = printable(text);
  if (line.size() <= most_value) return line;
  return fmt::format("{}... ({:016x})", line.substr(0, most_value - 24), XXH3_64bits(text.data(), text.size()));
}

std::string sampled_contents_text(const std::optional<ContentSample>& contents) {
  if (!contents) return "nothing";
  if (contents->unreadable == 0) return contents->digest;
  return fmt::format("{} ({} of {} unreadable: {})", contents->digest, contents->unreadable, contents->samples, contents->first_unreadable);
}

}  // namespace

std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs) {
  const auto settings = nlohmann::json::parse(to_json(inputs.settings));
  std::vector<AgreedValue> values;
  const std::vector<ActionEntry> profile = actions_of("profile");
  for (const Option* option : profile.front().options) {
    if (option->ranks == AmongRanks::same && !settings_of(*option).empty())
      values.push_back({std::string(option->names), short_line(option_text(*option, settings))});
  }
  values.push_back({"prep", short_line(prep_text(inputs))});
  values.push_back({"samples", std::to_string(inputs.index->size())});
  values.push_back({"index_digest", short_line(inputs.index->facts().digest)});
  values.push_back({"content_sample_digest", short_line(sampled_contents_text(inputs.contents))});
  return values;
}

}  // namespace dsanalyze::cli
