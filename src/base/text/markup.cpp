#include <fmt/format.h>

#include <cctype>

#include "text.hpp"
#include "units.hpp"

namespace dsanalyze {
namespace {

/// Whether a mark that turns the direction of writing begins here (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069); all take three bytes.
bool turns_direction(std::string_view text, std::size_t at) {
  if (text.size() - at < 3 || text[at] != '\xe2') return false;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const auto third = static_cast<unsigned char>(text[at + 2]);
  return (second == 0x80 && (third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

/// On one line, with nothing in it that is not seen.
std::string visible(std::string_view text) {
  std::string blanks(text);
  for (char& letter : blanks)
    if (letter == '\n' || letter == '\r' || letter == '\t') letter = ' ';
  const std::string shown = printable(blanks);
  std::string out;
  out.reserve(shown.size());
  for (std::size_t at = 0; at < shown.size(); ++at) {
    if (turns_direction(shown, at)) {
      out += shown[at + 1] == '\x80' ? "\\u20" : "\\u2066+";
      if (shown[at + 1] == '\x80') out += fmt::format("{:02x}", static_cast<unsigned char>(shown[at + 2]) - 0x80);
      at += 2;
    } else {
      out += shown[at];
    }
  }
  return out;
}

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

/// Where the mark stands that would begin a list, a heading or a rule if the text opened a line, blanks before it aside; npos: there is none.
std::size_t opening_mark(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return begin;
  const std::size_t mark = text.find_first_not_of("0123456789", begin);
  if (mark == std::string_view::npos) return mark;
  const std::string_view marks = mark > begin ? ".)" : "#+-=";
  if (marks.find(text[mark]) == std::string_view::npos) return std::string_view::npos;
  const std::string_view behind = text.substr(mark + 1);
  return behind.empty() || behind.front() == ' ' || behind.front() == text[mark] ? mark : std::string_view::npos;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char letter : visible(text)) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += letter;
    }
  }
  return out;
}

std::string markdown_text(std::string_view text) {
  const std::string shown = visible(text);
  std::string out;
  const std::size_t opening = opening_mark(shown);
  for (std::size_t at = 0; at < shown.size(); ++at) {
    const char letter = shown[at];
    const char before = at > 0 ? shown[at - 1] : ' ';
    if (letter == '<') {
      out += "&lt;";
    } else if (letter == '&') {
      out += "&amp;";
    } else if (std::string_view("\\`*_[]>|~$").find(letter) != std::string_view::npos || (letter == '/' && before == ':') || at == opening) {
      out += '\\';
      out += letter;
    } else if (letter == '.' && out.ends_with("www")) {
      out += "\\.";
    } else if (letter == '@' && !is_word(before)) {
      out += "@\xe2\x80\x8b";  // a blank without width: what follows is no mention
    } else {
      out += letter;
    }
  }
  return out;
}

std::string script_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char letter = json[at];
    if (letter == '<' || letter == '>' || letter == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else if (json.substr(at, 3) == "\xe2\x80\xa8" || json.substr(at, 3) == "\xe2\x80\xa9") {
      out += json[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      at += 2;
    } else {
      out += letter;
    }
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return fmt::format("{}… (cut: {} in all)", text.substr(0, end), format_bytes(text.size()));
}

}  // namespace dsanalyze
