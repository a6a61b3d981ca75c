#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

// Text from outside (names of files, devices, hosts) may hold anything. Threads: any.

/// The word as a shell reads it, for command lines that a person pastes: as it is where it needs no quotes, else in single quotes; with control
/// characters in it, as $'a\nb' (bash, zsh, ksh), so that it neither ends a line nor moves a terminal's cursor.
std::string shell_word(std::string_view word);

/// The text for a terminal or a log: control characters, among them those of C1 that UTF-8 can write, become "\x1b"; bytes that are not UTF-8 too.
std::string printable(std::string_view text);
/// printable() line by line: ends of lines stay.
std::string printable_lines(std::string_view text);

// Text within so many columns of a terminal. What a terminal would obey is made visible (printable(), base/text.hpp). Threads: any.

/// Columns that UTF-8 text takes on a terminal: one for each code point (the program's own words need no wider ones).
std::size_t display_width(std::string_view text);
/// The text's words in lines of at most `width` columns; a longer word is cut. No line ends between a number and its unit or interval, where both
/// fit.
std::vector<std::string> wrap(std::string_view text, std::size_t width);
/// wrap() as lines with ends; the first begins with `lead`, the others are indented by as much.
std::string paragraph(std::string_view lead, std::string_view text, std::size_t width);

// Text from outside inside documents. All of them make line ends blanks, show control characters, what is not UTF-8 and marks that turn the
// direction of writing as "\x1b", so that a name can neither break a document nor look like another. Threads: any.

/// For HTML: between tags and in quoted attributes.
std::string html_text(std::string_view text);
/// For GitHub-flavoured Markdown: a paragraph, an item or a table's cell. No markup, HTML, link or mention comes of it.
std::string markdown_text(std::string_view text);
/// A JSON document for an HTML <script type="application/json">: the same document, without any "<", ">", "&" and line separators.
std::string script_json(std::string_view json);
/// At most about `most` bytes of the text, cut between characters; says how many bytes there were.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace dsanalyze
