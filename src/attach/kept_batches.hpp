#pragma once

#include <cstdint>
#include <vector>

#include "messages.hpp"

namespace dsanalyze {

/// The relative standard error of samples a second that comes from having only `kept` batches of the epoch, as if they were drawn at random: what
/// their steps differ by beyond their samples (the variance of a ratio  [Cochran, Sampling Techniques, 1977, 6.4]). Each window takes them in turn,
/// from the first one on. What one batch's steps vary by is left out, as each half of the repetitions varies by itself. 0 where there are too few.
double kept_batches_error(const std::vector<StepWindow>& windows, std::uint64_t kept);

}  // namespace dsanalyze
