#include "sourced_json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dsanalyze {

SourcedNumber read_sourced(JsonObject number, double low, double high, Zero zero) {
  SourcedNumber sourced;
  sourced.value = number.number("value", low, high);
  if (zero == Zero::refused && sourced.value <= 0) number.fail("value", "found 0, expected a number above 0");
  sourced.provenance = number.named<Provenance>("provenance");
  sourced.source = number.text("source");
  if (sourced.source.empty()) number.fail("source", "found an empty text, expected where the number comes from");
  return sourced;
}

SourcedNumber read_rate(JsonObject& parent, std::string_view key, double high) { return read_sourced(parent.object(key), 0, high, Zero::refused); }

SourcedNumber read_whole(JsonObject& parent, std::string_view key, double low, double high) {
  JsonObject number = parent.object(key);
  number.integer("value", static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
  return read_sourced(number, low, high, Zero::allowed);
}

std::string read_name(JsonObject& root) {
  std::string name = root.text("name");
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), allowed)) {
    root.fail("name", fmt::format("found \"{}\", expected lower-case letters, digits, '-' and '.'", name));
  }
  return name;
}

}  // namespace dsanalyze
