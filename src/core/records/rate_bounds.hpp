#pragma once

namespace dsanalyze {

// Rates above these are typing mistakes: no device makes or takes a billion samples, or a petabyte, a second.
constexpr double most_samples_per_s = 1e9;
constexpr double most_bytes_per_s = 1e15;

}  // namespace dsanalyze
