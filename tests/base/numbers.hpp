#pragma once

#include <cmath>
#include <limits>

namespace dsanalyze::testing {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Relative to the expected value, however small that is.
inline bool close_to(double value, double expected, double share = 1e-9) { return std::abs(value - expected) <= share * std::abs(expected); }

}  // namespace dsanalyze::testing
