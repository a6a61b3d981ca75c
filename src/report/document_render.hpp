#pragma once

#include <cstddef>
#include <string>

#include "document.hpp"

namespace dsanalyze::report {

constexpr std::size_t longest_html_text = 2000;  ///< bytes of one text of a page

/// The navigation and the sections of a page, static: every number and sentence is there without a script.
std::string html_navigation(const Document& document);
std::string html_sections(const Document& document);
/// What the scripts draw: a JSON object from the charts' names to what they hold, without line ends.
std::string charts_json(const Document& document);
/// The whole document as GitHub-flavoured Markdown.
std::string markdown(const Document& document);

}  // namespace dsanalyze::report
