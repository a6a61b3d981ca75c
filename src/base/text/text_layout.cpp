#include "text_layout.hpp"

#include <algorithm>
#include <cstddef>

#include "text.hpp"

namespace dsanalyze {
namespace {

bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// The bytes of the first `columns` code points.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if (starts_code_point(text[at]) && columns-- == 0) break;
  return at;
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
    std::string_view word = text.substr(at, std::min(text.find_first_of(" \n", at), text.size()) - at);
    at += word.size();
    const std::size_t used = display_width(line);
    if (!line.empty() && used + 1 + display_width(word) <= width) {
      line += ' ';
      line += word;
      continue;
    }
    if (!line.empty()) lines.push_back(std::move(line));
    while (display_width(word) > width) {
      const std::size_t cut = bytes_of(word, width);
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
