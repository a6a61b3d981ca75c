#include "option_table.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/help/embedded_texts.hpp"
#include "common_options.hpp"

namespace dsanalyze::cli {
namespace {

/// What CLI11 calls the value of an option that says nothing of it.
constexpr std::string_view any_text = "TEXT";
constexpr std::string_view list_mark = "LIST ";

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The first clause, as long as a shell's list has room for.
std::string first_clause(const std::string& text) {
  int open = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '(') ++open;
    if (text[at] == ')') --open;
    const bool ends = text[at] == ';' || ((text[at] == '.' || text[at] == ':') && text.compare(at + 1, 1, " ") == 0);
    if (ends && open == 0) return text.substr(0, at);
  }
  return text;
}

/// "  --name ARG   text" and its continued lines, for each name: what the page says of the option.
std::map<std::string, std::string> texts_of(std::string_view page) {
  std::map<std::string, std::string> texts;
  std::vector<std::string> names;
  for (const std::string& line : split(page, '\n')) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    const bool is_option = begin == 2 && line.compare(begin, 1, "-") == 0;
    if (is_option) {
      names.clear();
      const std::size_t text = line.find("  ", begin);
      for (std::string word : split(std::string_view(line).substr(begin, text - begin), ' ')) {
        if (!word.starts_with('-')) continue;
        if (word.ends_with(',')) word.pop_back();
        names.push_back(word);
      }
    } else if (begin < 8) {
      names.clear();
    }
    const std::size_t text = is_option ? line.find_first_not_of(' ', line.find("  ", begin)) : begin;
    if (names.empty() || text == std::string::npos || text >= line.size()) continue;
    for (const std::string& name : names) {
      std::string& known = texts[name];
      if (!known.empty()) known += ' ';
      known += line.substr(text);
    }
  }
  return texts;
}

OptionEntry entry_of(const CLI::Option& option, const std::map<std::string, std::string>& texts) {
  OptionEntry entry;
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  entry.takes_value = option.get_expected_max() > 0;
  if (const std::string grammar = option.get_type_name(); grammar != any_text) entry.values = value_form(grammar);
  for (const std::string& name : entry.names)
    if (const auto found = texts.find(name); found != texts.end() && entry.text.empty()) entry.text = first_clause(found->second);
  return entry;
}

ActionEntry action_of(const CLI::App& app, const std::map<std::string, std::string>& texts) {
  ActionEntry action;
  for (const CLI::Option* option : app.get_options()) {
    OptionEntry entry = entry_of(*option, texts);
    (entry.names.empty() ? action.arguments : action.options).push_back(std::move(entry));
  }
  return action;
}

std::string_view page_of(std::string_view name) {
  for (const EmbeddedText& page : help_pages())
    if (page.name == name) return page.text;
  return "";
}

}  // namespace

ValueForm value_form(std::string_view grammar) {
  ValueForm form;
  form.list = grammar.starts_with(list_mark);
  if (form.list) grammar.remove_prefix(list_mark.size());
  form.alternatives = split(grammar, '|');
  return form;
}

std::vector<std::string> words_of(std::string_view grammar) { return value_form(grammar).alternatives; }

std::vector<ActionEntry> option_table(const CommandEntry& entry) {
  CommonOptions options;
  CommonTexts common;
  CLI::App app("", std::string(entry.name));
  const auto command = entry.make();
  command->declare(app);
  declare_common(app, options, common);

  std::map<std::string, std::string> texts = texts_of(page_of(entry.name));
  texts.merge(texts_of(page_of("common")));
  std::vector<ActionEntry> table{action_of(app, texts)};
  for (const CLI::App* action : app.get_subcommands([](const CLI::App* /*action*/) { return true; })) {
    table.push_back(action_of(*action, texts));
    table.back().name = action->get_name();
    table.back().options.insert(table.back().options.end(), table.front().options.begin(), table.front().options.end());
  }
  return table;
}

}  // namespace dsanalyze::cli
