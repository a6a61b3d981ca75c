#pragma once

#include "core/records/result.hpp"

namespace dsanalyze {

/// Fills `attained`, and takes out of the stalls what the rates do not explain: where the full run lost more than F, P and G of one server give,
/// beyond the intervals, the rest is interference, with what speaks for its causes. `full`: the full run as that server sees it; `by_rates`: the
/// lowest of F, P and G, and what comes next. Requires result.stalls, F, P and G. Pure.
void find_interference(ProfileResult& result, const RunRecord& full, const BottleneckRule& by_rates);

}  // namespace dsanalyze
