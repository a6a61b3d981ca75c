#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "base/text/text.hpp"
#include "cli/commands/command.hpp"
#include "cli/help/help.hpp"
#include "cli/options/option_table.hpp"

using namespace dsanalyze::cli;

namespace {

std::set<std::string> long_options_in(const std::string& text) {
  static const std::regex option("--[a-z][a-z-]*");
  return {std::sregex_token_iterator(text.begin(), text.end(), option), {}};
}

std::set<std::string> long_options_of(const CommandEntry& entry) {
  std::set<std::string> names;
  for (const ActionEntry& action : actions_of(entry.name))
    for (const Option* option : action.options)
      for (const std::string& name : names_of_option(*option))
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

TEST_CASE("what --help shows first fits two screens, names known options alone and says how to see all") {
  const std::string text = short_help_text("profile");
  CHECK(std::ranges::count(text, '\n') <= 60);
  CHECK(text.find("dsanalyze profile --help all") != std::string::npos);
  const auto profile = std::ranges::find(commands(), std::string_view("profile"), &CommandEntry::name);
  REQUIRE(profile != commands().end());
  const auto known = long_options_of(*profile);
  for (const std::string& name : long_options_in(text)) CHECK_MESSAGE(known.contains(name), name);
  CHECK(short_help_text("gate") == help_text("gate"));
}

TEST_CASE("every row of the tables names commands that are there, and groups that their help pages show") {
  for (const Option* option : every_option()) {
    CHECK_MESSAGE(option->place_count > 0, option->names);
    for (std::size_t at = 0; at < option->place_count; ++at) {
      const Option::Place& place = option->places.at(at);
      const std::string_view page_name = place.command.empty() ? "common" : place.command;
      const auto page = std::ranges::find(help_pages(), page_name, &EmbeddedText::name);
      REQUIRE_MESSAGE(page != help_pages().end(), option->names, " of ", place.command);
      if (option->is_argument() && place.group.empty()) continue;  // the page's title has it
      CHECK_MESSAGE(page->text.find("<!-- options: " + std::string(place.group) + " ") != std::string_view::npos, option->names, " in ", place.group);
    }
  }
}

TEST_CASE("texts fill in the defaults that there are, and mark the default among the choices") {
  for (const Option* option : every_option()) {
    for (std::size_t at = 0; at < option->place_count; ++at) {
      const Option::Place& place = option->places.at(at);
      const std::string_view written = place.text.empty() ? option->text : place.text;
      const std::string text = text_of(*option, place);
      CHECK_MESSAGE(text.find_first_of("{}[]") == std::string::npos, text);
      const bool marks_choices = written.find('[') != std::string_view::npos;
      if (marks_choices) CHECK_MESSAGE(text.find(" (default") != std::string::npos, text);
      if (marks_choices || written.find("{default}") != std::string_view::npos) CHECK_MESSAGE((option->initial != nullptr), text);
      if (written.find("{most}") != std::string_view::npos) CHECK_MESSAGE(option->most > 0, text);
    }
  }
  constexpr Option::Place place{};
  Option option = flag("--x", "[one] (for itself), [two] or [three]; {default}");
  option.initial = [] { return std::string("one"); };
  CHECK(text_of(option, place) == "one (default: for itself), two or three; one");
  option.initial = [] { return std::string("two"); };
  CHECK(text_of(option, place) == "one (for itself), two (default) or three; two");
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
