#pragma once

#include <string>

#include "dsanalyze/core/search_result.hpp"
#include "dsanalyze/report/report.hpp"

namespace dsanalyze::console {

/// What a search found: its conclusions, then the front of cost and time as a table. Findings are the caller's.
std::string search_section(const SearchResult& search, const ConsoleStyle& style);

}  // namespace dsanalyze::console
