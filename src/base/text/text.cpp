#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace dsanalyze
