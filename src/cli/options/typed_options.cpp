#include "typed_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "base/text/json_reader.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::cli {
namespace {

/// What is wrong with the number of an option's values. `message` is the parser's: "--name: ..."; its own words are for programmers.
std::string wrong_number_of_values(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  if (message.ends_with("missing")) return name + ": its value is missing";
  if (message.find("At Most") != std::string::npos) return name + ": is given more than once; give it once (lists: values with commas between)";
  return message;
}

void parse_words(CLI::App& app, std::vector<std::string> words) {
  try {
    std::ranges::reverse(words);
    app.parse(std::move(words));
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(wrong_number_of_values(error.what()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

/// Options that scripts may still pass, and what to do instead.
struct Removed {
  std::string_view command, name, instead;
};
constexpr std::array removed_options{
    Removed{"whatif", "--simulate", "the samples of every answer of a profile are moved through the loader; leave it out"},
    Removed{"whatif", "--model", "there is one model; leave it out"},
};

void refuse_removed(const std::string& command, const std::string& name) {
  for (const Removed& removed : removed_options)
    if (removed.command == command && removed.name == name) throw UsageError(fmt::format("{}: is gone: {}", name, removed.instead));
}

void refuse_extras(const std::vector<std::string>& extras, const std::vector<ActionEntry>& actions, const std::string& chosen,
                   const CommandEntry& entry) {
  const auto option = std::ranges::find_if(extras, [](const std::string& extra) { return extra.size() > 1 && extra.starts_with('-'); });
  if (option != extras.end()) {
    std::vector<std::string> in_reach;  // the command's own and those of the action that was named
    for (const ActionEntry& action : actions)
      if (action.name.empty() || action.name == chosen)
        for (const Option* known : action.options) std::ranges::copy(names_of_option(*known), std::back_inserter(in_reach));
    const std::string name = option->substr(0, option->find('='));
    refuse_removed(std::string(entry.name), name);
    throw UsageError(fmt::format("unknown option {}{}", name, did_you_mean(name, in_reach)));
  }
  if (extras.empty()) return;
  if (actions.size() > 1 && chosen.empty()) {
    std::vector<std::string> names;
    for (const ActionEntry& action : actions)
      if (!action.name.empty()) names.push_back(action.name);
    throw UsageError(
        fmt::format("unknown action \"{}\"{}; known are {}", extras.front(), did_you_mean(extras.front(), names), fmt::join(names, ", ")));
  }
  const std::string launches = entry.after_dashes == AfterDashes::a_command
                                   ? fmt::format("; a command of yours comes after --: dsanalyze {} -- python3 train.py", entry.name)
                                   : "";
  throw UsageError(fmt::format("unexpected argument \"{}\"{}", extras.front(), launches));
}

void require_known_words(const Option& option, const std::string& text) {
  if (!option.closed || text.empty()) return;
  const std::vector<std::string> words = words_of(option.words);
  const std::string name = option.is_argument() ? std::string(option.value) : names_of_option(option).back();
  if (!option.list) {
    checked_choice(name, text, words);
    return;
  }
  for (const std::string& part : parsed(name, text, split_list)) checked_choice(name, part, words);
}

}  // namespace

TypedOptions::TypedOptions(const CommandEntry& entry, const std::vector<std::string>& arguments) {
  auto end = arguments.end();
  if (entry.after_dashes == AfterDashes::a_command) {
    end = std::ranges::find(arguments, "--");
    if (end != arguments.end()) m_words.assign(end + 1, arguments.end());
    if (end != arguments.end() && m_words.empty()) throw UsageError("--: a command has to follow, such as python3 train.py");
  }
  const std::vector<ActionEntry> actions = actions_of(entry.name);
  CLI::App app("", std::string(entry.name));
  app.set_help_flag();  // help is found before parsing, so that no mistake elsewhere hides it
  app.allow_extras();   // unknown ones are reported here, with suggestions
  std::size_t most = 0;
  for (const ActionEntry& action : actions) most += action.options.size() + action.arguments.size();
  m_slots.reserve(most);  // the parser writes into them
  const auto slot_of = [&](const Option* option) -> Slot& {
    const auto found = std::ranges::find(m_slots, option, &Slot::option);
    return found == m_slots.end() ? m_slots.emplace_back(Slot{option}) : *found;
  };
  for (const ActionEntry& action : actions) {
    CLI::App* const own = action.name.empty() ? &app : app.add_subcommand(action.name)->fallthrough();
    own->set_help_flag();
    const auto add = [&](const Option* option) {
      Slot& slot = slot_of(option);
      const std::string names(option->names);
      if (!option->takes_value())
        own->add_flag(names, slot.flag);
      else if (option->repeated)
        own->add_option(names, slot.texts)->allow_extra_args(option->is_argument());
      else
        own->add_option(names, slot.text)->check([](const std::string& text) { return text.empty() ? "its value is empty" : ""; });
    };
    for (const Option* option : action.arguments) add(option);
    for (const Option* option : action.options)
      if (action.name.empty() || place_of(*option, entry.name) != nullptr) add(option);  // an action falls through to those of every command
  }
  parse_words(app, {arguments.begin(), end});
  if (const auto chosen = app.get_subcommands(); !chosen.empty()) m_action = chosen.front()->get_name();
  refuse_extras(app.remaining(true), actions, m_action, entry);
  for (const Slot& slot : m_slots) require_known_words(*slot.option, slot.text);
}

std::vector<const Option*> TypedOptions::given_options(std::string_view command) const {
  std::vector<const Option*> given;
  for (const Slot& slot : m_slots)
    if ((slot.flag || !slot.text.empty() || !slot.texts.empty()) && place_of(*slot.option, command) != nullptr) given.push_back(slot.option);
  return given;
}

const TypedOptions::Slot& TypedOptions::find(std::string_view name) const {
  static const Slot nothing;
  for (const Slot& slot : m_slots)
    if (has_name(*slot.option, name)) return slot;
  if (std::ranges::none_of(every_option(), [&](const Option* option) { return has_name(*option, name); }))
    throw std::logic_error(fmt::format("no table has an option {}", name));
  return nothing;
}

bool TypedOptions::given(std::string_view name) const {
  const Slot& slot = find(name);
  return slot.flag || !slot.text.empty() || !slot.texts.empty();
}

void TypedOptions::put(const char* mark, void* record) const {
  for (const Slot& slot : m_slots) {
    if (slot.option->record != mark || slot.text.empty()) continue;
    parsed(slot.option->names, slot.text, [&](const std::string& text) { slot.option->set(record, text); });
  }
}

CommonOptions common_options(const TypedOptions& typed) {
  CommonOptions options;
  typed.put(options);
  options.json = typed.given("--json");
  options.quiet = typed.given("--quiet");
  options.verbose = typed.given("--verbose");
  if (typed.given("--output")) options.output = typed.text("--output");
  return options;
}

bool has_flag(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> names) {
  const auto end = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), end, [names](const std::string& argument) { return std::ranges::find(names, argument) != names.end(); });
}

std::string checked_choice(std::string_view option, const std::string& text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return text;
  throw UsageError(fmt::format("{}: found \"{}\", expected {}{}", option, text, fmt::join(choices, ", "), did_you_mean(text, choices)));
}

}  // namespace dsanalyze::cli
