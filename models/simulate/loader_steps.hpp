#pragma once

#include <string_view>
#include <vector>

#include "core/records/result.hpp"

namespace dsanalyze::whatif {

/// What to do in PyTorch's DataLoader, NVIDIA DALI and WebDataset to follow an advice, by its code; empty for a code with which there is nothing to
/// do in a loader. Names are those of PyTorch 2, DALI 1 and 2, WebDataset 0.2 and later.
std::vector<LoaderStep> loader_steps(std::string_view advice_code);

}  // namespace dsanalyze::whatif
