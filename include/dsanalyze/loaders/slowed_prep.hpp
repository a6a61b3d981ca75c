#pragma once

#include <memory>

#include "dsanalyze/loaders/prep.hpp"

namespace dsanalyze {

/// For tests of what finds a slow-down: each sample burns `share` (at least 0) of the CPU time that it took once more, on the same thread. The
/// operators' times leave that out.
std::unique_ptr<PrepFactory> make_slowed_prep(std::unique_ptr<PrepFactory> prep, double share);

}  // namespace dsanalyze
