#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/text.hpp"
#include "core/sharing_modes.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {

/// "random|sequential|shards": the names of an enum, in its order, as the choices of an option.
template <typename Enum>
struct ChoicesOf {
  static constexpr std::size_t size = [] {
    std::size_t letters = enum_names<Enum>.size() - 1;
    for (const std::string_view name : enum_names<Enum>) letters += name.size();
    return letters;
  }();
  static constexpr std::array<char, size> letters = [] {
    std::array<char, size> joined{};
    std::size_t at = 0;
    for (const std::string_view name : enum_names<Enum>) {
      if (at > 0) joined[at++] = '|';
      for (const char letter : name) joined[at++] = letter;
    }
    return joined;
  }();
};
template <typename Enum>
inline constexpr std::string_view choices_of{ChoicesOf<Enum>::letters.data(), ChoicesOf<Enum>::size};

// What profile chooses among and whatif asks about.
inline constexpr std::string_view partition_modes = choices_of<PartitionMode>;
inline constexpr std::string_view balance_sources = choices_of<BalanceFrom>;
inline constexpr std::string_view storage_scopes = choices_of<StorageScope>;

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
