#include "dsanalyze/core/result.hpp"

#include <algorithm>

#include "version.hpp"

namespace dsanalyze {

ToolRecord this_tool() { return {"dsanalyze", tool_version, tool_commit}; }

const RunRecord* ProfileResult::run(const std::string& name) const {
  for (const RunRecord& each : runs) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

std::optional<double> ProfileResult::cache_fraction() const {
  double held = 0;
  int finished = 0;
  for (const RankRecord& rank : ranks) {
    if (rank.end != "finished") continue;
    held += static_cast<double>(rank.held_bytes);
    ++finished;
  }
  if (finished > 0 && settings.cache == CacheKind::minio && dataset.subset_bytes > 0)
    return std::min(1.0, held / finished / static_cast<double>(dataset.subset_bytes));
  return fetch ? fetch->cache_fraction : std::nullopt;
}

std::optional<double> ProfileResult::shared_cpu() const {
  double sum = 0;
  int count = 0;
  for (const RunRecord& run : runs) {
    if (run.shared_windows == 0 || !run.others) continue;
    sum += run.others->cpu_fraction;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

}  // namespace dsanalyze
