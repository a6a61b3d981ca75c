#include "json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

using Json = nlohmann::ordered_json;

std::string escaped(std::string_view key) {
  std::string out;
  for (const char letter : key) {
    if (letter == '~') {
      out += "~0";
    } else if (letter == '/') {
      out += "~1";
    } else {
      out += letter;
    }
  }
  return out;
}

std::string describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return fmt::format("an array of {} items", value.size());
  constexpr std::size_t longest = 60;
  std::string text = value.dump();
  if (text.size() <= longest) return text;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;  // never inside a UTF-8 character
  return text.substr(0, end) + "...";
}

template <typename Number>
std::string describe_range(std::string_view what, Number low, Number high) {
  using Limits = std::numeric_limits<Number>;
  const bool from = low > Limits::lowest();
  const bool to = high < Limits::max();
  if (from && to) return fmt::format("{} in [{}, {}]", what, low, high);
  if (from) return fmt::format("{} of at least {}", what, low);
  if (to) return fmt::format("{} of at most {}", what, high);
  return std::string(what);
}

// Not fmt::join, for which g++ 12 warns of an overflow that is none.
std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

}  // namespace

struct JsonObject::State {
  std::shared_ptr<const Json> document;
  const Json* value;
  std::string source;
  std::string pointer;
  std::map<std::string, bool, std::less<>> known;          // name asked for -> read
  std::map<std::string, std::shared_ptr<State>> children;  // by place, so that reading an object twice counts together

  [[noreturn]] void fail_at(const std::string& place, const std::string& message) const {
    throw UsageError(place.empty() ? fmt::format("{}: {}", source, message) : fmt::format("{}: {}: {}", source, place, message));
  }

  [[nodiscard]] std::string place_of(std::string_view key) const { return fmt::format("{}/{}", pointer, escaped(key)); }

  /// The value of `key`, now read; null if it is missing.
  const Json* find(std::string_view key) {
    known.insert_or_assign(std::string(key), true);
    const auto found = value->find(std::string(key));
    return found == value->end() ? nullptr : &*found;
  }

  /// find() for the optional readers, to which JSON's null is as good as nothing.
  const Json* find_given(std::string_view key) {
    const Json* const found = find(key);
    return found != nullptr && found->is_null() ? nullptr : found;
  }

  const Json& get(std::string_view key, const std::string& expected) {
    const Json* const found = find(key);
    if (found == nullptr) fail_at(place_of(key), fmt::format("missing, expected {}", expected));
    return *found;
  }

  [[noreturn]] void fail_expected(const std::string& place, const Json& found, const std::string& expected) const {
    fail_at(place, fmt::format("found {}, expected {}", describe(found), expected));
  }

  [[nodiscard]] std::string text_at(const std::string& place, const Json& found) const {
    if (!found.is_string()) fail_expected(place, found, "a string");
    return found.get<std::string>();
  }

  [[nodiscard]] std::int64_t integer_at(const std::string& place, const Json& found, std::int64_t low, std::int64_t high) const {
    const bool too_large =
        found.is_number_unsigned() && found.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (found.is_number_integer() && !too_large) {
      const auto integer = found.get<std::int64_t>();
      if (integer >= low && integer <= high) return integer;
    }
    fail_expected(place, found, describe_range("an integer", low, high));
  }

  [[nodiscard]] double number_at(const std::string& place, const Json& found, double low, double high) const {
    if (found.is_number()) {
      const auto number = found.get<double>();
      if (std::isfinite(number) && number >= low && number <= high) return number;
    }
    fail_expected(place, found, describe_range("a number", low, high));
  }

  [[nodiscard]] bool boolean_at(const std::string& place, const Json& found) const {
    if (!found.is_boolean()) fail_expected(place, found, "true or false");
    return found.get<bool>();
  }

  JsonObject object_at(const std::string& place, const Json& found) {
    if (!found.is_object()) fail_expected(place, found, "an object");
    JsonObject object(document, &found, source, place);
    object.m_state = children.try_emplace(place, object.m_state).first->second;
    return object;
  }

  void finish() const {
    for (const auto& [key, ignored] : value->items()) {
      const auto name = known.find(key);
      if (name != known.end() && name->second) continue;
      if (name != known.end()) fail_at(place_of(key), "found, but it has no meaning here; remove it");
      std::vector<std::string> names;
      for (const auto& [each, read] : known) names.push_back(each);
      const auto near = nearest_name(key, names);
      fail_at(place_of(key),
              near ? fmt::format("unknown key; did you mean \"{}\"?", *near) : fmt::format("unknown key; known here: {}", joined(names)));
    }
    for (const auto& [place, child] : children) child->finish();
  }
};

JsonObject::JsonObject(std::shared_ptr<const Json> document, const Json* value, std::string source, std::string pointer)
    : m_state(std::make_shared<State>(State{std::move(document), value, std::move(source), std::move(pointer), {}, {}})) {}

bool JsonObject::has(std::string_view key) const {
  m_state->known.try_emplace(std::string(key), false);
  return m_state->value->contains(std::string(key));
}

std::string JsonObject::text(std::string_view key) { return m_state->text_at(m_state->place_of(key), m_state->get(key, "a string")); }

std::optional<std::string> JsonObject::optional_text(std::string_view key) {
  const Json* const found = m_state->find_given(key);
  return found == nullptr ? std::nullopt : std::optional(m_state->text_at(m_state->place_of(key), *found));
}

std::string JsonObject::choice(std::string_view key, const std::vector<std::string>& choices) {
  const std::string expected = fmt::format("one of {}", joined(choices));
  const Json& found = m_state->get(key, expected);
  if (!found.is_string()) m_state->fail_expected(m_state->place_of(key), found, expected);
  auto name = found.get<std::string>();
  if (std::ranges::find(choices, name) != choices.end()) return name;
  m_state->fail_expected(m_state->place_of(key), found, expected + did_you_mean(name, choices));
}

std::int64_t JsonObject::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  return m_state->integer_at(m_state->place_of(key), m_state->get(key, describe_range("an integer", low, high)), low, high);
}

std::uint64_t JsonObject::unsigned_integer(std::string_view key) {
  const std::string expected = fmt::format("an integer in [0, {}]", std::numeric_limits<std::uint64_t>::max());
  const Json& found = m_state->get(key, expected);
  if (!found.is_number_unsigned()) m_state->fail_expected(m_state->place_of(key), found, expected);
  return found.get<std::uint64_t>();
}

std::optional<std::int64_t> JsonObject::optional_integer(std::string_view key, std::int64_t low, std::int64_t high) {
  const Json* const found = m_state->find_given(key);
  return found == nullptr ? std::nullopt : std::optional(m_state->integer_at(m_state->place_of(key), *found, low, high));
}

double JsonObject::number(std::string_view key, double low, double high) {
  return m_state->number_at(m_state->place_of(key), m_state->get(key, describe_range("a number", low, high)), low, high);
}

std::optional<double> JsonObject::optional_number(std::string_view key, double low, double high) {
  const Json* const found = m_state->find_given(key);
  return found == nullptr ? std::nullopt : std::optional(m_state->number_at(m_state->place_of(key), *found, low, high));
}

bool JsonObject::boolean(std::string_view key) { return m_state->boolean_at(m_state->place_of(key), m_state->get(key, "true or false")); }

std::vector<double> JsonObject::numbers(std::string_view key, std::size_t least, std::size_t most, double low, double high) {
  const std::string count = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  const std::string expected = describe_range(fmt::format("an array of {} numbers", count), low, high);
  const Json& found = m_state->get(key, expected);
  const std::string place = m_state->place_of(key);
  if (!found.is_array() || found.size() < least || found.size() > most) m_state->fail_expected(place, found, expected);
  std::vector<double> numbers;
  for (const Json& item : found) numbers.push_back(m_state->number_at(fmt::format("{}/{}", place, numbers.size()), item, low, high));
  return numbers;
}

JsonObject JsonObject::object(std::string_view key) { return m_state->object_at(m_state->place_of(key), m_state->get(key, "an object")); }

std::optional<JsonObject> JsonObject::optional_object(std::string_view key) {
  const Json* const found = m_state->find_given(key);
  return found == nullptr ? std::nullopt : std::optional(m_state->object_at(m_state->place_of(key), *found));
}

std::vector<JsonObject> JsonObject::objects(std::string_view key) {
  const Json& found = m_state->get(key, "an array of objects");
  const std::string place = m_state->place_of(key);
  if (!found.is_array()) m_state->fail_expected(place, found, "an array of objects");
  std::vector<JsonObject> objects;
  for (const Json& item : found) objects.push_back(m_state->object_at(fmt::format("{}/{}", place, objects.size()), item));
  return objects;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, ignored] : m_state->value->items()) keys.push_back(key);
  return keys;
}

void JsonObject::ignore(std::string_view key) { m_state->known.insert_or_assign(std::string(key), true); }

const Json& JsonObject::raw(std::string_view key) { return m_state->get(key, "a value"); }

void JsonObject::finish() { m_state->finish(); }

void JsonObject::fail(std::string_view key, const std::string& found_and_expected) const {
  m_state->fail_at(key.empty() ? m_state->pointer : m_state->place_of(key), found_and_expected);
}

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return out;
}

/// Insertions, deletions, changes and swaps of neighbours between two words (optimal string alignment distance of Damerau and Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, const std::vector<std::string>& known) {
  // Two letters of a long word are a slip, of a short one another word.
  const std::size_t farthest = std::max(std::min<std::size_t>(2, word.size() / 2), word.size() / 3);
  std::optional<std::string> nearest;
  std::size_t nearest_distance = farthest + 1;
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(lower(word), lower(name));
    if (distance < nearest_distance) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto near = nearest_name(word, known);
  return near ? fmt::format(" (did you mean \"{}\"?)", *near) : "";
}

}  // namespace dsanalyze
