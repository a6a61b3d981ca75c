#include "attached_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.hpp"

namespace dsanalyze {
namespace {

/// Wilson's interval of a fraction of so many looks: 95 %.
Interval interval_of(double fraction, double looks) {
  const double z = normal_quantile(0.975);
  const double middle = (fraction + z * z / (2 * looks)) / (1 + z * z / looks);
  const double half = z * std::sqrt(fraction * (1 - fraction) / looks + z * z / (4 * looks * looks)) / (1 + z * z / looks);
  return {std::clamp(middle - half, 0.0, fraction), std::clamp(middle + half, fraction, 1.0)};
}

}  // namespace

void take_hot_stages(const AttachedTraining& training, ProfileResult& result) {
  constexpr std::uint64_t least_looks = 40;
  constexpr double least_fraction = 0.01;
  std::uint64_t looks = 0;
  double seconds = 0;
  std::map<std::string, StageRecord> stages;
  std::map<std::string, double> hottest_line;
  for (const auto* drains : {&training.drains, &training.further_drains})
    for (const DrainMeasurement& drain : *drains)
      for (const auto& [rank, drained] : drain.by_rank)
        for (const DrainedMessage::Stage& stage : drained.stages) {
          looks += stage.count;
          seconds += stage.cpu_seconds;
          StageRecord& taken = stages.try_emplace(stage.name, StageRecord{stage.name, stage.file, stage.line, 0}).first->second;
          taken.fraction += stage.cpu_seconds;
          double& most = hottest_line[stage.name];  // Of all its lines, that one is named.
          if (stage.cpu_seconds > most) {
            most = stage.cpu_seconds;
            taken.file = stage.file;
            taken.line = stage.line;
          }
        }
  if (looks < least_looks || seconds <= 0) return;
  std::vector<StageRecord>& hot = result.hot;
  for (auto& [name, stage] : stages) {
    stage.fraction /= seconds;
    stage.ci95_fraction = interval_of(stage.fraction, static_cast<double>(looks));
    if (stage.fraction >= least_fraction) hot.push_back(std::move(stage));
  }
  std::ranges::stable_sort(hot, std::ranges::greater{}, &StageRecord::fraction);
}

}  // namespace dsanalyze
