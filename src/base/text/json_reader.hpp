#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "enum_names.hpp"

namespace dsanalyze {

/// Reads one JSON object strictly: every key must be asked for, every value must have the type and range asked for. All errors are UsageError of
/// the form "configs/workloads/resnet18.json: /prep/crop/size: found -224, expected an integer in [1, 4096]".
///
///   JsonObject root = parse_json_object(text, "configs/x.json");
///   int size = root.object("prep").integer("size", 1, 4096);
///   root.finish();   // unknown keys are errors, with the nearest known key suggested; also finishes the objects read from it
class JsonObject {
 public:
  JsonObject(std::shared_ptr<const nlohmann::ordered_json> document, const nlohmann::ordered_json* value, std::string source, std::string pointer);

  /// Whether the key is there. Makes it a known name, but only reading it (or ignore()) satisfies finish().
  [[nodiscard]] bool has(std::string_view key) const;
  // A key that is missing is an error, except for optional_*: there a missing key and null both mean "not given".
  std::string text(std::string_view key);
  std::optional<std::string> optional_text(std::string_view key);
  /// One of `choices`; the error lists them.
  std::string choice(std::string_view key, const std::vector<std::string>& choices);
  /// One of the names of an enum's values (enum_names.hpp).
  template <typename Enum>
  Enum named(std::string_view key) {
    return *enum_named<Enum>(choice(key, {enum_names<Enum>.begin(), enum_names<Enum>.end()}));
  }
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  /// Any number of 64 bits, as a seed may be: integer() ends at 2^63 - 1.
  std::uint64_t unsigned_integer(std::string_view key);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t low, std::int64_t high);
  /// A finite number in [low, high].
  double number(std::string_view key, double low, double high);
  std::optional<double> optional_number(std::string_view key, double low, double high);
  bool boolean(std::string_view key);
  std::vector<double> numbers(std::string_view key, std::size_t least, std::size_t most, double low, double high);
  JsonObject object(std::string_view key);
  std::optional<JsonObject> optional_object(std::string_view key);
  std::vector<JsonObject> objects(std::string_view key);
  /// The keys of this object, in file order (for maps with free keys: read each with object()).
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Marks a key as known without reading it.
  void ignore(std::string_view key);
  /// The raw value, for passing whole subtrees on.
  const nlohmann::ordered_json& raw(std::string_view key);
  /// Throws if a key of this object, or of an object read from it, was never asked for. Suggests the nearest name that was.
  void finish();
  /// A UsageError about `key` in the reader's form; about the object itself if `key` is empty.
  [[noreturn]] void fail(std::string_view key, const std::string& found_and_expected) const;

 private:
  struct State;
  std::shared_ptr<State> m_state;
};

/// Throws UsageError with line and column for text that is not JSON, holds duplicate keys, is nested deeper than 64 levels, or whose root is
/// no object.
JsonObject parse_json_object(std::string_view text, const std::string& source);

/// The nearest of `known` to `word` if it is near enough to be a typing mistake.
std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& known);
/// " (did you mean "x"?)", or empty when nothing known is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace dsanalyze
