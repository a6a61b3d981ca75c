#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

// Text within so many columns of a terminal. What a terminal would obey is made visible (printable(), base/text.hpp). Threads: any.

/// Columns that UTF-8 text takes on a terminal: one for each code point (the program's own words need no wider ones).
std::size_t display_width(std::string_view text);
/// The text's words in lines of at most `width` columns; a longer word is cut.
std::vector<std::string> wrap(std::string_view text, std::size_t width);
/// wrap() as lines with ends; the first begins with `lead`, the others are indented by as much.
std::string paragraph(std::string_view lead, std::string_view text, std::size_t width);

}  // namespace dsanalyze
