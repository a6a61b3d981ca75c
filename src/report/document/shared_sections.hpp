#pragma once

#include <string>
#include <vector>

#include "core/records/result.hpp"
#include "document.hpp"

namespace dsanalyze::report {

// Parts that documents of several kinds of records have.

/// With a capital letter, as sentences and headings begin.
std::string begun(std::string text);
/// All advice, what it rests on, and the steps in a loader of one's own; nothing for none.
void add_advice(const std::vector<AdviceRecord>& advice, Section& section);
/// "note", "warning", "error".
std::string severity_word(Finding::Severity severity);
/// The most severe first.
Section findings_of(const std::vector<Finding>& findings);

}  // namespace dsanalyze::report
