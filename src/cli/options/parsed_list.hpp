#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text/units.hpp"

namespace dsanalyze::cli {

/// Parses each part of an option's list. Throws UsageError that names the option.
template <typename Value, typename Parse>
std::vector<Value> parsed_list(const std::string& option, const std::string& text, Parse parse) {
  std::vector<Value> values;
  try {
    for (const std::string& part : split_list(text)) values.push_back(parse(part));
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
  return values;
}

}  // namespace dsanalyze::cli
