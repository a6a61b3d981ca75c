#pragma once

#include <memory>

#include "prep.hpp"

namespace dsanalyze {

// A slow-down of known size, for tests of what finds one: each sample burns a share of the CPU time that it took once more, on the same thread. The
// operators' times leave that out.

/// The environment variable that asks for it.
constexpr const char* slow_prep_variable = "DSANALYZE_TEST_SLOW_PREP";
/// The share that it asks for, from 0 to 1; 0 where it is not set. Throws UsageError for anything else.
double slow_prep_share();
std::unique_ptr<PrepFactory> make_slowed_prep(std::unique_ptr<PrepFactory> prep, double share);

}  // namespace dsanalyze
