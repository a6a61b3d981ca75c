#include "option_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/records/settings.hpp"

namespace dsanalyze::cli {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

void replace(std::string& text, std::string_view mark, const std::string& by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), by);
}

/// "[none] (each for itself) or [shared]" -> "none (default: each for itself) or shared".
std::string with_default_marked(std::string_view text, const std::string& usual) {
  std::string marked;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find('['), text.size());
    marked += text.substr(0, begin);
    text.remove_prefix(begin);
    if (text.empty()) break;
    const std::size_t end = text.find(']');
    const std::string_view word = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    marked += word;
    if (word != usual) continue;
    marked += " (default";
    if (text.starts_with(" (")) {
      marked += ": ";
      text.remove_prefix(2);
    } else {
      marked += ")";
    }
  }
  return marked;
}

bool has(const std::vector<std::string>& words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

}  // namespace

std::vector<const Option*> every_option() {
  std::vector<const Option*> options;
  for (const auto table : {profile_table(), whatif_table(), command_table()})
    for (const Option& option : table) options.push_back(&option);
  return options;
}

std::vector<std::string> words_of(std::string_view grammar) { return split(grammar, "|"); }
std::vector<std::string> names_of_option(const Option& option) { return split(option.names, ", "); }
bool has_name(const Option& option, std::string_view name) { return has(names_of_option(option), name); }

const Option::Place* place_of(const Option& option, std::string_view command) {
  const auto end = option.places.begin() + option.place_count;
  const auto found = std::find_if(option.places.begin(), end, [&](const Option::Place& place) { return place.command == command; });
  return found == end ? nullptr : &*found;
}

std::string text_of(const Option& option, const Option::Place& place) {
  std::string text(place.text.empty() ? option.text : place.text);
  const std::string usual = option.initial == nullptr ? "" : option.initial();
  replace(text, "{default}", usual);
  replace(text, "{most}", std::to_string(option.most));
  return with_default_marked(text, usual);
}

std::string short_text(const Option& option, std::string_view command) {
  const Option::Place* const place = place_of(option, command);
  std::string text = text_of(option, place == nullptr ? option.places.front() : *place);
  std::ranges::replace(text, '\n', ' ');
  int open = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') ++open;
    if (text[at] == ')') --open;
    const bool ends = text[at] == ';' || ((text[at] == '.' || text[at] == ':') && text.compare(at + 1, 1, " ") == 0);
    if (ends && open == 0) return text.substr(0, at);
  }
  return text;
}

std::vector<std::string> settings_of(const Option& option) {
  std::vector<std::string> settings;
  for (const std::string_view name : option.settings)
    if (!name.empty()) settings.emplace_back(name);
  if (settings.empty() && option.record == &record_mark<ProfileSettings>) {
    settings.emplace_back(option.names.substr(2));
    std::ranges::replace(settings.front(), '-', '_');
  }
  return settings;
}

std::vector<ActionEntry> actions_of(std::string_view command) {
  std::vector<ActionEntry> actions{{}};
  const auto action = [&](const std::string& name) -> ActionEntry& {
    const auto found = std::ranges::find(actions, name, &ActionEntry::name);
    return found == actions.end() ? actions.emplace_back(ActionEntry{name, {}, {}}) : *found;
  };
  const std::vector<const Option*> options = every_option();
  for (const Option* option : options) {
    const Option::Place* const place = place_of(*option, command);
    if (place == nullptr || command.empty()) continue;
    for (const std::string& name : place->actions.empty() ? std::vector<std::string>{""} : words_of(place->actions)) {
      ActionEntry& entry = action(name);
      (option->is_argument() ? entry.arguments : entry.options).push_back(option);
    }
  }
  for (const Option* option : options)
    if (place_of(*option, {}) != nullptr)
      for (ActionEntry& entry : actions) entry.options.push_back(option);
  return actions;
}

std::vector<OptionLine> option_lines(std::string_view command, std::string_view group) {
  std::vector<OptionLine> lines;
  for (const Option* option : every_option()) {
    const Option::Place* const place = place_of(*option, command);
    if (place == nullptr || place->group != group) continue;
    const bool shows_value = option->takes_value() && !option->is_argument();
    lines.push_back({fmt::format("{}{}{}", option->names, shows_value ? " " : "", shows_value ? option->value : ""), text_of(*option, *place)});
  }
  return lines;
}

std::string option_lines_json() {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Option* option : every_option()) {
    for (std::size_t at = 0; at < option->place_count; ++at) {
      const Option::Place& place = option->places.at(at);
      nlohmann::ordered_json& lines = json[place.command.empty() ? "common" : std::string(place.command)][std::string(place.group)];
      if (!lines.is_null()) continue;
      lines = nlohmann::ordered_json::array();
      for (const OptionLine& line : option_lines(place.command, place.group)) lines.push_back({line.head, line.text});
    }
  }
  return json.dump() + "\n";
}

}  // namespace dsanalyze::cli
