#include "help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "cli/commands/command.hpp"
#include "cli/options/option_table.hpp"
#include "cli/process/data_files.hpp"

namespace dsanalyze::cli {
namespace {

/// The names in a folder of configs/; none where the program's data are not found, which other commands complain of.
std::vector<std::string> config_names(const std::string& folder) {
  std::vector<std::string> names;
  try {
    if (const auto kind = enum_named<ConfigKind>(folder))
      for (const ConfigFile& file : config_files(*kind)) names.push_back(file.name);
  } catch (const Error&) {
    names.clear();
  }
  return names;
}

class Completer {
 public:
  explicit Completer(std::string_view typed) : m_typed(typed) {}

  void offer(const std::string& word, const std::string& text = "") {
    if (word.starts_with(m_typed)) m_completion.candidates.push_back({m_before + word, text});
  }

  void offer_options(std::string_view command, std::span<const Option* const> options, std::span<const std::string> used) {
    for (const Option* option : options) {
      const std::vector<std::string> names = names_of_option(*option);
      const auto is_used = [&](const std::string& name) { return std::ranges::find(used, name) != used.end(); };
      if (std::ranges::any_of(names, is_used)) continue;
      for (const std::string& name : names)
        if (name.starts_with("--") || m_typed == name) offer(name, short_text(*option, command));
    }
  }

  void offer_values(const Option& option) {
    const std::size_t comma = option.list ? m_typed.rfind(',') : std::string_view::npos;
    const std::string given = comma == std::string_view::npos ? "" : "," + std::string(m_typed.substr(0, comma + 1));
    if (!given.empty()) keep(comma + 1);
    for (const std::string& alternative : words_of(option.words))
      if (given.find("," + alternative + ",") == std::string::npos) offer_value(alternative);
  }

  /// The first `length` characters stay as they were typed; what follows is completed.
  void keep(std::size_t length) {
    m_before += m_typed.substr(0, length);
    m_typed.remove_prefix(length);
  }

  Completion take() { return std::move(m_completion); }

 private:
  void offer_value(const std::string& alternative) {
    if (alternative == "FILE") {
      m_completion.paths = Completion::Paths::files;
    } else if (alternative == "FOLDER") {
      if (m_completion.paths == Completion::Paths::none) m_completion.paths = Completion::Paths::folders;
    } else if (const std::size_t at = alternative.find('@'); at == std::string::npos) {
      offer(alternative);
    } else {
      const std::string lead = alternative.substr(0, at);
      const bool inside = m_typed.starts_with(lead);
      if (!inside) offer(lead);
      if (inside)
        for (const std::string& name : config_names(alternative.substr(at + 1))) offer(lead + name);
    }
  }

  std::string_view m_typed;
  std::string m_before;
  Completion m_completion;
};

const Option* find_option(std::span<const Option* const> options, std::string_view name) {
  const auto found = std::ranges::find_if(options, [&](const Option* option) { return has_name(*option, name); });
  return found == options.end() ? nullptr : *found;
}

/// What stands before the cursor, told apart with one set of options.
struct Before {
  std::vector<std::string> used;       ///< names of options
  std::vector<std::string> arguments;  ///< words that belong to no option
  const Option* open_value = nullptr;  ///< the option whose value is under the cursor
};

Before take_apart(std::span<const std::string> words, std::span<const Option* const> options) {
  Before before;
  for (const std::string& word : words) {
    if (before.open_value != nullptr) {
      before.open_value = nullptr;
    } else if (word.size() > 1 && word.starts_with('-')) {
      const std::string name = word.substr(0, word.find('='));
      before.used.push_back(name);
      const Option* option = find_option(options, name);
      if (option != nullptr && option->takes_value() && name == word) before.open_value = option;
    } else {
      before.arguments.push_back(word);
    }
  }
  return before;
}

void offer_commands(Completer& completer) {
  for (const CommandEntry& entry : commands()) completer.offer(std::string(entry.name), std::string(entry.summary));
  completer.offer("help", "shows a command's page");
}

const CommandEntry* find_command(std::string_view name) {
  for (const CommandEntry& entry : commands())
    if (entry.name == name) return &entry;
  return nullptr;
}

const ActionEntry& action_among(const std::vector<ActionEntry>& table, std::span<const std::string> arguments) {
  for (const std::string& word : arguments)
    for (const ActionEntry& action : table)
      if (action.name == word) return action;
  return table.front();
}

/// The word under the cursor, somewhere behind the command's name.
Completion complete_command(const CommandEntry& entry, std::span<const std::string> words, std::string_view typed) {
  const std::vector<ActionEntry> table = actions_of(entry.name);
  std::vector<const Option*> options;
  for (const ActionEntry& action : table) options.insert(options.end(), action.options.begin(), action.options.end());
  const Before before = take_apart(words, options);
  const ActionEntry& action = action_among(table, before.arguments);
  Completer completer(typed);
  if (before.open_value != nullptr) {
    completer.offer_values(*before.open_value);
  } else if (const std::size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string_view::npos) {
    if (const Option* option = find_option(action.options, typed.substr(0, equals))) {
      completer.keep(equals + 1);
      completer.offer_values(*option);
    }
  } else if (typed.starts_with('-')) {
    completer.offer_options(entry.name, action.options, before.used);
  } else if (table.size() > 1 && action.name.empty()) {
    for (const ActionEntry& known : table)
      if (!known.name.empty()) completer.offer(known.name);
    for (const Option* argument : action.arguments) completer.offer_values(*argument);
  } else if (const std::size_t place = before.arguments.size() - (action.name.empty() ? 0 : 1); !action.arguments.empty()) {
    completer.offer_values(*action.arguments[std::min(place, action.arguments.size() - 1)]);
  }
  return completer.take();
}

}  // namespace

Completion complete(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::string& typed = words.back();
  const std::span<const std::string> earlier(words.data(), words.size() - 1);
  const std::vector<const Option*> common = actions_of({}).front().options;
  const Before before = take_apart(earlier, common);
  if (!before.arguments.empty()) {
    const std::string& name = before.arguments.front();
    const CommandEntry* entry = find_command(name);
    Completer completer(typed);
    if (name == "help" && before.arguments.size() == 1) offer_commands(completer);
    if (entry == nullptr) return completer.take();
    std::vector<std::string> rest(earlier.begin(), earlier.end());
    rest.erase(std::ranges::find(rest, name));
    return complete_command(*entry, rest, typed);
  }
  Completer completer(typed);
  if (before.open_value != nullptr) {
    completer.offer_values(*before.open_value);
  } else if (typed.starts_with('-')) {
    completer.offer_options({}, common, before.used);
    completer.offer("--version", "which version this is");
  } else {
    offer_commands(completer);
  }
  return completer.take();
}

std::string completion_lines(const Completion& completion) {
  std::string lines;
  for (const Completion::Candidate& candidate : completion.candidates)
    lines += candidate.text.empty() ? candidate.word + "\n" : fmt::format("{}\t{}\n", candidate.word, candidate.text);
  if (completion.paths != Completion::Paths::none) lines += completion.paths == Completion::Paths::files ? ":files\n" : ":folders\n";
  return lines;
}

std::string completion_script(const std::string& shell) {
  for (const EmbeddedText& script : completion_scripts())
    if (script.name == shell) return std::string(script.text);
  throw UsageError(fmt::format("there is no completion for \"{}\"", shell));
}

}  // namespace dsanalyze::cli
