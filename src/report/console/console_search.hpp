#pragma once

#include <string>

#include "core/records/search_result.hpp"
#include "report/report.hpp"

namespace dsanalyze::console {

/// What a search found: its conclusions, then the front of cost and time as a table. Findings are the caller's.
std::string search_section(const SearchResult& search, const ConsoleStyle& style);

}  // namespace dsanalyze::console
