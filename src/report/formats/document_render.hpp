#pragma once

#include <cstddef>
#include <string>

#include "report/document/document.hpp"

namespace dsanalyze::report {

constexpr std::size_t longest_html_text = 2000;  ///< bytes of one text of a page

std::string html_navigation(const Document& document);
/// The sections of a page, static: every number and sentence is there without a script. `room`: bytes that tables and lists may take, beyond the
/// first row or item of each.
std::string html_sections(const Document& document, std::size_t room);
/// What the scripts draw: a JSON object from the charts' names to what they hold, without line ends.
std::string charts_json(const Document& document);
/// The whole document as GitHub-flavoured Markdown.
std::string markdown(const Document& document);

}  // namespace dsanalyze::report
