#pragma once

#include <string>
#include <string_view>

#include "group.hpp"

namespace dsanalyze::group_protocol {

std::string to_text(const GroupTerms& terms);
std::string to_text(const GroupDemands& demands);
/// Strictly: throw UsageError for what is no text of to_text(). The terms' staging facts are valid and a slot holds a batch of the tensor.
GroupTerms parse_terms(std::string_view text);
GroupDemands parse_demands(std::string_view text);
/// Throws UsageError for terms that no group can have: facts, tensor and slot do not fit one another.
void check_terms(const GroupTerms& terms);

}  // namespace dsanalyze::group_protocol
