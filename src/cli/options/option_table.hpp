#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/command.hpp"

namespace dsanalyze::cli {

/// What may follow an option. Written beside the option's declaration (`->type_name("minio|lru")`), in this grammar: alternatives between "|",
/// each a word; FILE or FOLDER; @workloads and the like for the names of a folder of configs/; a word that ends in ":" before one of these
/// ("emulated:@storage"). "LIST " in front: several, with commas between.
struct ValueForm {
  std::vector<std::string> alternatives;  ///< empty: free text, a number, a size
  bool list = false;
};
ValueForm value_form(std::string_view grammar);
/// The words of a grammar that has nothing but words: what the parser accepts and what completion offers is one list.
std::vector<std::string> words_of(std::string_view grammar);

/// One option or argument of a command, as the parser knows it and as the help page explains it.
struct OptionEntry {
  std::vector<std::string> names;  ///< "--cache", "-o"; empty for an argument that is told by its place
  bool takes_value = false;
  ValueForm values;
  std::string text;  ///< one line of the help page; may be empty
};

/// An action of a command (`dataset make`), or the command itself with an empty name.
struct ActionEntry {
  std::string name;
  std::vector<OptionEntry> options;    ///< the common ones last
  std::vector<OptionEntry> arguments;  ///< in the order of their places
};

/// The table from which names are suggested, help is checked and shells complete: the command itself first, then its actions.
std::vector<ActionEntry> option_table(const CommandEntry& entry);

}  // namespace dsanalyze::cli
