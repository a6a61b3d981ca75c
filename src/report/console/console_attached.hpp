#pragma once

#include <string>

#include "report/report.hpp"

namespace dsanalyze::console {

/// The first minute with a training of the user's own: the bottleneck in one line, the step's parts, the rates, how far to trust them.
std::string attached_summary(const ProfileResult& result, const ConsoleStyle& style);

}  // namespace dsanalyze::console
