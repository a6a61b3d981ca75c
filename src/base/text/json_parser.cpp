#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "json_reader.hpp"

namespace dsanalyze {
namespace {

using Json = nlohmann::ordered_json;

/// Reads the text and tells how far the parser has come, which its callbacks do not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : m_at(at), m_reached(reached) {}
  reference operator*() const { return *m_at; }
  CountingIterator& operator++() {
    *m_reached = ++m_at;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return m_at == other.m_at; }

 private:
  const char* m_at;
  const char** m_reached;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : m_text(text), m_source(source), m_reached(text.data()) {}

  Json parse() {
    const char* const end = m_text.data() + m_text.size();
    const auto check = [this](int depth, Json::parse_event_t event, const Json& value) {
      check_event(depth, event, value);
      return true;
    };
    try {
      return Json::parse(CountingIterator(m_text.data(), &m_reached), CountingIterator(end, &m_reached), check);
    } catch (const Json::exception& error) {
      fail(reason_in(error.what()));
    }
  }

 private:
  // Deeper text is an attack on the stack of the code that walks the tree.
  static constexpr int deepest = 64;

  void check_event(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= deepest) fail(fmt::format("nested deeper than {} levels", deepest));
      if (event == Json::parse_event_t::object_start) m_open_objects.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      m_open_objects.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      if (!m_open_objects.back().insert(key).second) fail(fmt::format("the key \"{}\" is there twice", key));
    }
  }

  [[noreturn]] void fail(const std::string& reason) const {
    // The place is that of the last character read, the one at which the mistake showed.
    const auto reached = static_cast<std::size_t>(std::max<std::ptrdiff_t>(m_reached - m_text.data(), 1));
    const std::string_view before = m_text.substr(0, reached - 1);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    throw UsageError(fmt::format("{}: line {}, column {}: {}", m_source, line, before.size() - line_begin + 1, reason));
  }

  // Of "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..." what follows the place.
  static std::string reason_in(std::string_view message) {
    const std::size_t bracket = message.find("] ");
    if (bracket != std::string_view::npos) message.remove_prefix(bracket + 2);
    constexpr std::string_view place = "parse error at line ";
    const std::size_t colon = message.find(": ");
    if (message.starts_with(place) && colon != std::string_view::npos) message.remove_prefix(colon + 2);
    return std::string(message);
  }

  std::string_view m_text;
  const std::string& m_source;
  const char* m_reached;
  std::vector<std::set<std::string>> m_open_objects;
};

}  // namespace

JsonObject parse_json_object(std::string_view text, const std::string& source) {
  auto document = std::make_shared<const Json>(Parser(text, source).parse());
  if (!document->is_object()) throw UsageError(fmt::format("{}: line 1, column 1: found {}, expected an object", source, document->type_name()));
  const Json* const root = document.get();
  return {std::move(document), root, source, ""};
}

}  // namespace dsanalyze
