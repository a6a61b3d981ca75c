#include "fields.hpp"

#include <fmt/format.h>

namespace dsanalyze {

Json interval_json(const Interval& interval) { return {{"low", interval.low}, {"high", interval.high}}; }

Interval read_interval(JsonObject parent, std::string_view key, double low, double high) {
  JsonObject object = parent.object(key);
  const Interval interval{object.number("low", low, high), object.number("high", low, high)};
  if (interval.low > interval.high) object.fail("low", fmt::format("found {}, expected at most /high ({})", interval.low, interval.high));
  return interval;
}

std::vector<std::string> read_texts(JsonObject& object, std::string_view key) {
  const Json& list = object.raw(key);
  if (!list.is_array()) object.fail(key, "found no list, expected a list of texts");
  std::vector<std::string> texts;
  for (const Json& item : list) {
    if (!item.is_string()) object.fail(key, "found an item that is no text, expected a list of texts");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

void require_schema(JsonObject& root, const std::string& schema, const std::string& command) {
  const std::string found = root.text("schema");
  if (found != schema) root.fail("schema", fmt::format(R"(found "{}", expected "{}", the result of `{}`)", found, schema, command));
}

std::string document_text(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

bool is_known(JsonObject& object, std::string_view key) { return object.has(key) && !object.raw(key).is_null(); }

}  // namespace dsanalyze
