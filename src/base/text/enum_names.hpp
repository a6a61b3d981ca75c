#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dsanalyze {

/// The names of an enum's values, in the order of the values. They are written once, beside the enum:
///
///   enum class OrderKind { random, sequential };
///   constexpr std::array<const char*, 2> names_of(OrderKind) { return {"random", "sequential"}; }
template <typename Enum>
inline constexpr auto enum_names = names_of(Enum{});

template <typename Enum>
std::string enum_name(Enum value) {
  return enum_names<Enum>.at(static_cast<std::size_t>(value));
}

/// The names of some of an enum's values, in that order.
template <auto first, decltype(first)... others>
inline constexpr std::array names_of_values = {enum_names<decltype(first)>[static_cast<std::size_t>(first)],
                                               enum_names<decltype(first)>[static_cast<std::size_t>(others)]...};

/// The value of that name; nullopt where no value has it.
template <typename Enum>
std::optional<Enum> enum_named(std::string_view name) {
  const auto found = std::ranges::find(enum_names<Enum>, name);
  if (found == enum_names<Enum>.end()) return std::nullopt;
  return static_cast<Enum>(found - enum_names<Enum>.begin());
}

}  // namespace dsanalyze
