#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.hpp"

namespace dsanalyze::cli {

/// Parses a command's arguments into its members and the common options. Throws UsageError; unknown options come with the nearest known one.
CommonOptions parse_options(const CommandEntry& entry, Command& command, const std::vector<std::string>& arguments);

/// "--json" and the like are looked for before anything is parsed, as they hold for errors of parsing too. Stops at "--".
bool has_flag(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> names);

}  // namespace dsanalyze::cli
