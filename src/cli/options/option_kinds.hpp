#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/units.hpp"
#include "core/records/settings.hpp"
#include "option.hpp"

namespace dsanalyze::cli {

// What an option's text means: parse() throws Error, shown() gives the text back that means a default. A kind may know its largest value (`most`) and
// its only words (`words`).

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

template <typename Enum>
struct Named {
  static constexpr std::string_view words = choices_of<Enum>;
  static Enum parse(const std::string& text) {
    if (const auto value = enum_named<Enum>(text)) return *value;
    throw UsageError(fmt::format("found \"{}\", expected one of {}", text, fmt::join(enum_names<Enum>, ", ")));
  }
  static std::string shown(Enum value) { return enum_name(value); }
};

struct Plain {
  static std::string parse(const std::string& text) { return text; }
  static std::string shown(const std::string& text) { return text; }
};

template <std::int64_t Low, std::int64_t High>
struct Whole {
  static constexpr std::int64_t most = High;
  static std::int64_t parse(const std::string& text) { return parse_integer(text, Low, High); }
  static std::string shown(std::int64_t value) { return std::to_string(value); }
};

/// "90s", "3min".
struct Seconds {
  static double parse(const std::string& text) { return parse_seconds(text); }
  static std::string shown(double seconds) {
    const auto whole = static_cast<std::int64_t>(seconds);
    return whole % 60 == 0 ? fmt::format("{}min", whole / 60) : fmt::format("{:g}s", seconds);
  }
};

/// "0.1%".
struct Share {
  static double parse(const std::string& text) { return parse_share(text); }
  static std::string shown(double share) { return fmt::format("{:g}%", share * 100); }
};

/// "256MiB", above 0.
struct Size {
  static Bytes parse(const std::string& text) {
    const Bytes bytes = parse_bytes(text);
    if (bytes == 0) throw UsageError("found 0, expected a size above 0, for example 256MiB");
    return bytes;
  }
  static std::string shown(Bytes bytes) { return fmt::format("{}MiB", bytes >> 20); }
};

/// What a function makes of the text.
template <auto Function>
struct By {
  static auto parse(const std::string& text) { return Function(text); }
};

inline double positive_number(const std::string& text) {
  const double value = parse_number(text);
  if (value <= 0) throw UsageError(fmt::format("found \"{}\", expected a number above 0", text));
  return value;
}

/// "2x".
inline bool is_factor(const std::string& text) { return text.ends_with('x') || text.ends_with('X'); }

inline double positive_factor(const std::string& text) {
  const double factor = parse_factor(text);
  if (factor <= 0) throw UsageError(fmt::format("found \"{}\", expected a factor above 0, for example 2x", text));
  return factor;
}

template <typename Member>
struct MemberOf;
template <typename R, typename V>
struct MemberOf<V R::*> {
  using Record = std::conditional_t<std::is_base_of_v<R, ProfileSettings>, ProfileSettings, R>;  ///< of a group of settings: all of them
  using Value = V;
};

template <typename Value>
inline constexpr bool holds_several = false;
template <typename Value>
inline constexpr bool holds_several<std::vector<Value>> = true;
template <typename Value>
struct ValueIn {
  using Type = Value;
};
template <typename Value>
struct ValueIn<std::optional<Value>> : ValueIn<Value> {};
template <typename Value>
struct ValueIn<std::vector<Value>> : ValueIn<Value> {};

template <typename Kind, typename Value>
void assign(Value& value, const std::string& text) {
  using Type = typename ValueIn<Value>::Type;
  if constexpr (holds_several<Value>) {
    Value values;
    for (const std::string& part : split_list(text)) values.push_back(static_cast<Type>(Kind::parse(part)));
    value = std::move(values);
  } else {
    value = static_cast<Type>(Kind::parse(text));
  }
}

template <auto Member, typename Kind>
constexpr Option Option::like() const {
  using Value = typename MemberOf<decltype(Member)>::Value;
  Option changed = *this;
  if constexpr (requires(const Value& member) { Kind::shown(member); }) {
    changed.initial = [] { return Kind::shown(typename MemberOf<decltype(Member)>::Record{}.*Member); };
  }
  if constexpr (requires { Kind::most; }) changed.most = Kind::most;
  if constexpr (requires { Kind::words; }) changed = changed.one_of(Kind::words);
  changed.list = holds_several<Value>;
  return changed;
}

template <auto Member, typename Kind>
constexpr Option Option::sets() const {
  using Record = typename MemberOf<decltype(Member)>::Record;
  Option changed = like<Member, Kind>();
  changed.record = &record_mark<Record>;
  changed.set = [](void* into, const std::string& typed) { assign<Kind>(static_cast<Record*>(into)->*Member, typed); };
  return changed;
}

}  // namespace dsanalyze::cli
