#pragma once

#include <regex>
#include <set>
#include <string>

namespace dsanalyze::testing {

/// What the pattern's first group is at each of its matches on the page.
inline std::multiset<std::string> all_of(const std::string& page, const std::string& pattern) {
  const std::regex expression(pattern);
  std::multiset<std::string> found;
  for (std::sregex_iterator at(page.begin(), page.end(), expression), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

}  // namespace dsanalyze::testing
