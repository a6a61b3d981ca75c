#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "base/text/text_layout.hpp"
#include "cli/commands/command.hpp"
#include "cli/help/embedded_texts.hpp"
#include "cli/options/option_table.hpp"

using namespace dsanalyze::cli;

namespace {

std::set<std::string> long_options_in(const std::string& text) {
  static const std::regex option("--[a-z][a-z-]*");
  return {std::sregex_token_iterator(text.begin(), text.end(), option), {}};
}

std::set<std::string> long_options_of(const CommandEntry& entry) {
  std::set<std::string> names;
  for (const ActionEntry& action : option_table(entry))
    for (const OptionEntry& option : action.options)
      for (const std::string& name : option.names)
        if (name.starts_with("--")) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("every option that a command's parser knows stands in its help page") {
  for (const CommandEntry& entry : commands()) {
    const auto written = long_options_in(help_text(entry.name));
    for (const std::string& name : long_options_of(entry)) CHECK_MESSAGE(written.contains(name), entry.name, " ", name);
  }
}

TEST_CASE("every option that a command's help page names is known to its parser") {
  for (const CommandEntry& entry : commands()) {
    const auto known = long_options_of(entry);
    for (const std::string& name : long_options_in(help_text(entry.name))) CHECK_MESSAGE(known.contains(name), entry.name, " ", name);
  }
}

TEST_CASE("every help page shows an example and fits 80 columns") {
  for (const CommandEntry& entry : commands()) CHECK_MESSAGE(help_text(entry.name).find("Example") != std::string::npos, entry.name);
  for (const EmbeddedText& page : help_pages()) {
    const std::string text = help_text(page.name);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      CHECK_MESSAGE(std::ranges::count_if(line, [](char byte) { return (byte & 0xC0) != 0x80; }) <= 80, page.name, ": ", line);
      at = end + 1;
    }
  }
}

TEST_CASE("in narrow terminals help pages say the same in the same order, within the width but for lines to copy") {
  const auto lines_of = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  };
  const auto letters_of = [](std::string text) {
    std::erase_if(text, [](char byte) { return byte == ' ' || byte == '\n'; });
    return text;
  };
  for (const EmbeddedText& page : help_pages()) {
    const std::string written = help_text(page.name);
    CHECK(help_text(page.name, 120) == written);
    CHECK(help_text(page.name, 1) == help_text(page.name, 40));
    const auto written_lines = lines_of(written);
    for (int width = 40; width < 80; ++width) {
      const std::string text = help_text(page.name, width);
      CHECK(letters_of(text) == letters_of(written));
      for (const std::string& line : lines_of(text)) {
        const bool to_copy = std::ranges::any_of(
            written_lines, [&](const std::string& other) { return line.starts_with("  ") && !line.starts_with("  -") && other.starts_with(line); });
        CHECK_MESSAGE((to_copy || static_cast<int>(dsanalyze::display_width(line)) <= width), page.name, " at ", width, ": ", line);
      }
    }
  }
}
