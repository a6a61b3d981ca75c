#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "cli/commands/command.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {

/// What parse() makes of an option's text; errors name the option.
template <typename Parse>
auto parsed(std::string_view option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// A command's options as they were typed.
class TypedOptions {
 public:
  /// `arguments`: behind the command's name. Throws UsageError; unknown options come with the nearest known one, a word that is not among an option's
  /// only ones with the nearest of them.
  TypedOptions(const CommandEntry& entry, const std::vector<std::string>& arguments);

  /// Whether a flag stands there, or an option with a value that is not empty.
  [[nodiscard]] bool given(std::string_view name) const;
  /// Empty where it was not typed, or the command has no such option. Throws std::logic_error for a name that no table has.
  [[nodiscard]] const std::string& text(std::string_view name) const { return find(name).text; }
  /// Of an option that may be given several times.
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view name) const { return find(name).texts; }
  /// Those that stand there and that the tables give this command alone, not every command.
  [[nodiscard]] std::vector<const Option*> given_options(std::string_view command) const;
  /// "make"; empty: none, or the command has none.
  [[nodiscard]] const std::string& action() const { return m_action; }
  /// What stands behind "--", which is not parsed.
  [[nodiscard]] const std::vector<std::string>& words() const { return m_words; }

  /// Writes what was typed into the members that the table names. Throws UsageError that names the option.
  template <typename Record>
  void put(Record& record) const {
    put(&record_mark<Record>, &record);
  }
  /// What parse() makes of the option's text, if it was typed; errors name the option.
  template <typename Target, typename Parse>
  void set(Target& target, std::string_view name, const Parse& parse) const {
    if (given(name)) target = parsed(name, text(name), parse);
  }

 private:
  struct Slot {
    const Option* option = nullptr;
    std::string text{};
    std::vector<std::string> texts{};
    bool flag = false;
  };
  [[nodiscard]] const Slot& find(std::string_view name) const;
  void put(const char* mark, void* record) const;

  std::vector<Slot> m_slots;
  std::string m_action;
  std::vector<std::string> m_words;
};

CommonOptions common_options(const TypedOptions& typed);

/// "--json" and the like are looked for before anything is parsed, as they hold for errors of parsing too. Stops at "--".
bool has_flag(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> names);

}  // namespace dsanalyze::cli
