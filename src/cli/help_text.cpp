#include <fmt/format.h>

#include <stdexcept>

#include "embedded_texts.hpp"

namespace dsanalyze::cli {
namespace {

std::string_view markdown_of(std::string_view name) {
  for (const EmbeddedText& page : help_pages())
    if (page.name == name) return page.text;
  throw std::logic_error(fmt::format("no help page {}.md", name));
}

std::string rendered(std::string_view markdown) {
  std::string text;
  while (!markdown.empty()) {
    const auto end = std::min(markdown.find('\n'), markdown.size());
    std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    if (line.starts_with("```")) continue;
    if (line.starts_with('#')) line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
    for (const char character : line)
      if (character != '`') text += character;
    text += '\n';
  }
  return text;
}

}  // namespace

std::string help_text(std::string_view name) {
  std::string text = rendered(markdown_of(name));
  if (name != "common") text += "\n" + rendered(markdown_of("common"));
  return text;
}

}  // namespace dsanalyze::cli
