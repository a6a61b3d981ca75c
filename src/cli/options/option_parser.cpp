#include "option_parser.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "base/text/units.hpp"
#include "common_options.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// The options that hold where an unknown one stood: the command's own and those of the action that was named.
std::vector<std::string> names_in_reach(const CLI::App& app) {
  std::vector<std::string> names = names_of(app);
  for (const CLI::App* action : app.get_subcommands()) {
    const auto own = names_of(*action);
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

std::vector<std::string> action_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* action : app.get_subcommands([](const CLI::App* /*action*/) { return true; })) names.push_back(action->get_name());
  return names;
}

void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  const auto option = std::ranges::find_if(extras, [](const std::string& extra) { return extra.size() > 1 && extra.starts_with('-'); });
  if (option != extras.end()) {
    const std::string name = option->substr(0, option->find('='));
    throw UsageError(fmt::format("unknown option {}{}", name, did_you_mean(name, names_in_reach(app))));
  }
  if (extras.empty()) return;
  const auto actions = action_names(app);
  if (!actions.empty() && app.get_subcommands().empty())
    throw UsageError(
        fmt::format("unknown action \"{}\"{}; known are {}", extras.front(), did_you_mean(extras.front(), actions), fmt::join(actions, ", ")));
  throw UsageError(fmt::format("unexpected argument \"{}\"", extras.front()));
}

/// What is wrong with the number of an option's values. `message` is the parser's: "--name: ..."; its own words are for programmers.
std::string wrong_number_of_values(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  if (message.ends_with("missing")) return name + ": its value is missing";
  if (message.find("At Most") != std::string::npos) return name + ": is given more than once; give it once (lists: values with commas between)";
  return message;
}

}  // namespace

CommonOptions parse_options(const CommandEntry& entry, Command& command, const std::vector<std::string>& arguments) {
  CommonOptions options;
  CommonTexts texts;
  CLI::App app("", std::string(entry.name));
  command.declare(app);
  declare_common(app, options, texts);
  auto end = arguments.end();
  if (std::vector<std::string>* const words = command.words_after_dashes(); words != nullptr) {
    end = std::ranges::find(arguments, "--");
    if (end != arguments.end()) words->assign(end + 1, arguments.end());
    if (end != arguments.end() && words->empty()) throw UsageError("--: a command is to follow");
  }
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(end), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(wrong_number_of_values(error.what()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  refuse_extras(app);

  const std::string colour = checked_choice("--color", texts.colour, words_of(colour_choices));
  options.colour = colour == "auto" ? ColourChoice::automatic : colour == "always" ? ColourChoice::always : ColourChoice::never;
  if (app.count("--output") > 0) {
    if (texts.output.empty()) throw UsageError("-o: expected the name of a file");
    options.output = texts.output;
  }
  if (app.count("--seed") > 0) {
    try {
      options.seed = parse_seed(texts.seed);
    } catch (const Error& error) {
      throw UsageError(fmt::format("--seed: {}", error.what()));
    }
  }
  return options;
}

bool has_flag(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> names) {
  const auto end = std::ranges::find(arguments, "--");
  return std::any_of(arguments.begin(), end, [names](const std::string& argument) { return std::ranges::find(names, argument) != names.end(); });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto near = nearest_name(word, known);
  return near ? fmt::format(" (did you mean \"{}\"?)", *near) : "";
}

std::string checked_choice(std::string_view option, const std::string& text, const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, text) != choices.end()) return text;
  throw UsageError(fmt::format("{}: found \"{}\", expected {}{}", option, text, fmt::join(choices, ", "), did_you_mean(text, choices)));
}

}  // namespace dsanalyze::cli
