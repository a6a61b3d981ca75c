#pragma once

#include <cstdint>
#include <vector>

#include "models/path/path.hpp"

namespace dsanalyze {

struct TrainingModel;

inline constexpr std::uint64_t path_seed = 1;

/// The path of a launched training, whose values are such that it brings what was measured: P of each number of workers that was drained, and what
/// steps take while workers are busy.
struct TrainingPath {
  /// What a sample takes a worker where there are so many.
  struct Need {
    int workers = 0;
    Measured cpu_seconds, other_seconds;
  };
  Path found;
  std::vector<Need> needs{};    ///< workers rising, at least one
  Path::Handover from_workers;  ///< of a batch that a worker has
  double in_turn_seconds = 0;   ///< without workers: what a step takes longer than preparing and training by themselves
  double sent_cpu_seconds = 0;  ///< of a sample: sending it, as a worker does and the training's process does not (taken for what receiving it takes)
  double unexplained = 0;       ///< how far the run as found lies from what the path brings, as a share, beyond its interval
};

/// Of what was measured, which is all of `model` but its path. Throws UsageError where it has more workers than are moved one by one. Pure.
TrainingPath path_of(const TrainingModel& model);

/// Of so many workers: straight between two numbers that were measured; beyond the last, what else than computing a sample takes grows on as it did
/// before. Pure.
Path with_workers(const TrainingPath& known, int workers);

/// So many workers of each rank are moved one by one, at most; -1 where the ranks alone are too many. Pure.
int most_moved_workers(const Path& path);
/// Throws UsageError for more than that. Pure.
void require_moved(const Path& path, int workers);

}  // namespace dsanalyze
