#pragma once

#include <cstddef>

namespace dsanalyze {

// What the commands that read every sample of a dataset have in common.

constexpr std::size_t piece_samples = 32;    ///< that a thread takes at a time
constexpr std::size_t failures_named = 100;  ///< of all that failed

}  // namespace dsanalyze
