#include "attached_parts.hpp"

#include <algorithm>
#include <functional>

namespace dsanalyze {

void take_script_costs(const AttachedTraining& training, ProfileResult& result) {
  constexpr double least_fraction = 0.01;
  std::vector<ScriptCostRecord>& costs = result.script_costs;
  for (const auto& [rank, beside] : training.beside_steps) {
    if (beside.seconds <= 0) continue;
    const auto ranks = static_cast<double>(training.beside_steps.size());
    for (const SpentTime& spent : beside.places) {
      const double fraction = std::min(spent.seconds / beside.seconds, 1.0);
      if (fraction < least_fraction || spent.count == 0) continue;
      const ScriptCostRecord cost{spent.what,
                                  spent.file,
                                  spent.line,
                                  spent.count,
                                  spent.seconds / static_cast<double>(spent.count),
                                  fraction,
                                  std::clamp(spent.waited_seconds / spent.seconds, 0.0, 1.0),
                                  spent.workers,
                                  ranks * beside.samples / beside.seconds};
      const auto known = std::ranges::find_if(
          costs, [&cost](const ScriptCostRecord& each) { return each.what == cost.what && each.file == cost.file && each.line == cost.line; });
      if (known == costs.end())
        costs.push_back(cost);
      else if (known->fraction < cost.fraction)
        *known = cost;
    }
  }
  std::ranges::stable_sort(costs, std::ranges::greater{}, &ScriptCostRecord::fraction);
}

}  // namespace dsanalyze
