#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {

// What profile chooses among and whatif asks about, in the order of the enums.
inline constexpr std::string_view partition_modes = "none|partitioned|locality";
inline constexpr std::string_view balance_sources = "peers|storage";
inline constexpr std::string_view storage_scopes = "server|shared";

/// Parses the option's text if it was typed; errors name the option.
template <typename Target, typename Parse>
void set_if(Target& target, const char* option, const std::string& text, Parse parse) {
  if (text.empty()) return;
  try {
    target = parse(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// The value of the name's position among the choices, which are in the order of the enum.
template <typename Enum>
Enum chosen(const char* option, const std::string& text, std::string_view choices) {
  const std::vector<std::string> names = words_of(choices);
  const std::string name = checked_choice(option, text, names);
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace dsanalyze::cli
