#pragma once

#include <vector>

#include "core/records/result.hpp"
#include "models/whatif/training_model.hpp"
#include "path.hpp"

namespace dsanalyze {

/// The path of a launched training, whose values are such that it brings what was measured: P of each number of workers that was drained, and what
/// steps take while workers are busy.
struct TrainingPath {
  /// What a sample takes a worker where there are so many.
  struct Need {
    int workers = 0;
    Measured cpu_seconds, other_seconds;
  };
  Path found;
  std::vector<Need> needs;      ///< workers rising, at least one
  Path::Handover from_workers;  ///< of a batch that a worker has
  double in_turn_seconds = 0;   ///< without workers: what a step takes longer than preparing and training by themselves
  double sent_cpu_seconds = 0;  ///< of a worker's: handing a sample over
  double unexplained = 0;       ///< how far the run as found lies from what the path brings, as a share, beyond its interval
};

TrainingPath training_path(const ProfileResult& profile, const TrainingModel& model);
/// The training changed, by the path.
TrainingRates rates_by_path(const TrainingModel& model, const TrainingPath& path, const TrainingChange& change);

}  // namespace dsanalyze
