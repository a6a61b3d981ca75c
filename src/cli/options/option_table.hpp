#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "option.hpp"

namespace dsanalyze::cli {

// The tables. A row of any of them may name any command.
std::span<const Option> profile_table();  ///< of profile, share and doctor
std::span<const Option> whatif_table();   ///< of whatif and simulate
std::span<const Option> command_table();  ///< of the other commands, and of all

/// Every option of the program, those that all commands have last.
std::vector<const Option*> every_option();

/// What may follow an option, from a grammar: alternatives between "|", each a word; FILE or FOLDER; @workloads and the like for the names of a
/// folder of configs/; a word that ends in ":" before one of these ("emulated:@storage"). Empty: free text, a number, a size.
std::vector<std::string> words_of(std::string_view grammar);
/// "-o", "--output".
std::vector<std::string> names_of_option(const Option& option);
bool has_name(const Option& option, std::string_view name);
/// The command that has it; nullptr where it has it not, or all have it.
const Option::Place* place_of(const Option& option, std::string_view command);
/// What the command's help page says of it, with defaults filled in and back quotes around code.
std::string text_of(const Option& option, const Option::Place& place);
/// The first clause of that, as long as a shell's list has room for.
std::string short_text(const Option& option, std::string_view command);
/// The settings of a result that it decides; none where it decides none.
std::vector<std::string> settings_of(const Option& option);

/// An action of a command (`dataset make`), or the command itself with an empty name.
struct ActionEntry {
  std::string name;
  std::vector<const Option*> options;    ///< the common ones last
  std::vector<const Option*> arguments;  ///< in the order of their places
};
/// The command itself first, then its actions.
std::vector<ActionEntry> actions_of(std::string_view command);

/// What a help page shows at a group's place.
struct OptionLine {
  std::string head;  ///< "-o, --output FILE"
  std::string text;  ///< as text_of()
};
std::vector<OptionLine> option_lines(std::string_view command, std::string_view group);
/// Of every command and group, for the manual pages: {"profile": {"loader": [["--workers N|auto", "prep threads"]]}}; those of all commands are
/// "common"'s.
std::string option_lines_json();

}  // namespace dsanalyze::cli
