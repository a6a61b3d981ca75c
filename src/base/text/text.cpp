#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace dsanalyze {
namespace {

constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

/// The bytes of the character at `at` that may be shown; 0 for a control character or what is not UTF-8.
std::size_t shown_bytes(std::string_view text, std::size_t at) {
  const unsigned char first = byte_at(text, at);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  std::size_t length = 0;
  if (first >= 0xc2 && first < 0xe0) length = 2;
  if (first >= 0xe0 && first < 0xf0) length = 3;
  if (first >= 0xf0 && first < 0xf5) length = 4;
  if (length == 0 || text.size() - at < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte_at(text, at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  const bool second_control_set = first == 0xc2 && second < 0xa0;
  return overlong || no_character || second_control_set ? 0 : length;
}

/// Each character that may be shown goes through `shown`, each other byte through `hidden`.
template <typename Shown, typename Hidden>
std::string rewritten(std::string_view text, const Shown& shown, const Hidden& hidden) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = shown_bytes(text, at);
    out += length > 0 ? shown(text.substr(at, length)) : hidden(byte_at(text, at));
    at += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  if (printable(word) != word) {
    const auto shown = [](std::string_view letter) { return std::string(letter == "'" || letter == "\\" ? "\\" : "") + std::string(letter); };
    // Three octal digits end by themselves; after "\x1" a digit would be read as one more.
    return "$'" + rewritten(word, shown, [](unsigned char byte) { return fmt::format("\\{:03o}", byte); }) + "'";
  }
  std::string out = "'";
  for (const char letter : word) out += letter == '\'' ? "'\\''" : std::string(1, letter);
  return out + "'";
}

std::string printable(std::string_view text) {
  return rewritten(
      text, [](std::string_view letter) { return std::string(letter); }, [](unsigned char byte) { return fmt::format("\\x{:02x}", byte); });
}

std::string printable_lines(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += printable(text.substr(0, end));
    if (end == text.size()) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

namespace {

bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// The bytes of the first `columns` code points.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (starts_code_point(text[at]) && columns-- == 0) break;
  return at;
}

constexpr std::string_view plus_minus = "\u00b1";

bool is_decimal(char letter) { return letter >= '0' && letter <= '9'; }

bool is_number(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("(+-~<>="), word.size()));
  return !word.empty() && is_decimal(word.front()) && word.find_first_not_of("0123456789.,") == std::string_view::npos;
}

bool is_unit(std::string_view word) {
  static constexpr std::array<std::string_view, 15> units{"%", "ns", "us",  "\u00b5s", "ms",  "s",   "min",      "h",
                                                          "B", "kB", "KiB", "MiB",     "GiB", "TiB", "samples/s"};
  return std::ranges::find(units, word.substr(0, word.find_last_not_of(").,;:]") + 1)) != units.end();
}

/// A number and its unit, or its interval.
bool stay_together(std::string_view word, std::string_view next) {
  return word == plus_minus || next == plus_minus || (is_number(word) && is_unit(next));
}

std::string_view next_word(std::string_view text, std::size_t at) {
  at = std::min(text.find_first_not_of(" \n", at), text.size());
  return text.substr(at, std::min(text.find_first_of(" \n", at), text.size()) - at);
}

/// Bytes of a word's part for a line that it is too wide for: up to a sign of punctuation, or as many as fit; digits stay with their neighbours.
std::size_t cut_of(std::string_view word, std::size_t width) {
  const std::size_t most = bytes_of(word, width);
  const auto in_number = [&](std::size_t at) { return at > 0 && at + 1 < word.size() && is_decimal(word[at - 1]) && is_decimal(word[at + 1]); };
  for (std::size_t at = most; at > most / 2; --at)
    if (std::string_view("/._:,;-=").find(word[at - 1]) != std::string_view::npos && !in_number(at - 1)) return at;
  std::size_t at = most;
  while (at > 0 && at < word.size() && is_decimal(word[at - 1]) && is_decimal(word[at])) --at;
  return at > 0 ? at : most;
}

std::string without_trailing_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::size_t display_width(std::string_view text) { return static_cast<std::size_t>(std::ranges::count_if(text, starts_code_point)); }

std::vector<std::string> wrap(std::string_view outside, std::size_t width) {
  const std::string shown = printable_lines(outside);
  const std::string_view text = shown;
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ' || text[at] == '\n') {
      ++at;
      continue;
    }
    std::string_view word = next_word(text, at);
    at += word.size();
    std::string together(word);
    for (std::string_view last = word, next = next_word(text, at); !next.empty() && stay_together(last, next);
         last = next, next = next_word(text, at)) {
      if (display_width(together) + 1 + display_width(next) > width) break;
      together += ' ';
      together += next;
      at = static_cast<std::size_t>(next.data() - text.data()) + next.size();
    }
    word = together;
    const std::size_t used = display_width(line);
    if (!line.empty() && used + 1 + display_width(word) <= width) {
      line += ' ';
      line += word;
      continue;
    }
    if (!line.empty()) lines.push_back(std::move(line));
    while (display_width(word) > width) {
      const std::size_t cut = cut_of(word, width);
      lines.emplace_back(word.substr(0, cut));
      word.remove_prefix(cut);
    }
    line = word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string paragraph(std::string_view lead, std::string_view text, std::size_t width) {
  const std::size_t lead_width = display_width(lead);
  std::string result;
  for (const std::string& line : wrap(text, width > lead_width ? width - lead_width : 1)) {
    const std::string start = result.empty() ? std::string(lead) : std::string(lead_width, ' ');
    result += without_trailing_blanks(start + line) + "\n";
  }
  return result;
}

}  // namespace dsanalyze
