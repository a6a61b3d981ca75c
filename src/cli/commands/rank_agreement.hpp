#pragma once

#include <vector>

#include "profile/profiler.hpp"
#include "transport/rendezvous/rendezvous.hpp"

namespace dsanalyze::cli {

/// What all ranks must have alike, or they would not train one job: the dataset and the options that must be the same, as resolved. Values are one
/// short line each.
std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs);

}  // namespace dsanalyze::cli
