#pragma once

#include <cstddef>

namespace dsanalyze {

/// The smallest multiple that is not below the value.
constexpr std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace dsanalyze
