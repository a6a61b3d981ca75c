#pragma once

#include "cli/options/typed_options.hpp"
#include "models/whatif/whatif.hpp"

namespace dsanalyze::cli {

/// whatif's lists of what to change, and --find. Throws UsageError that names the option.
WhatIfQuestion whatif_question(const TypedOptions& typed, const RateModel& model);

}  // namespace dsanalyze::cli
