#pragma once

#include <limits>
#include <vector>

#include "models/path/path.hpp"

namespace dsanalyze {

/// Linux counts what a cgroup reads in slices of so long (block/blk-throttle.c).
inline constexpr double admission_slice_seconds = 0.1;

/// A loader whose workers fetch a sample and then prepare it, one sample after another, as those of PyTorch's DataLoader do.
struct WorkerCycle {
  int workers = 1;                     ///< of all ranks
  double cores = 1;                    ///< that they share
  double cpu_seconds = 0;              ///< of a sample: computing
  double other_seconds = 0;            ///< of a sample: waiting for something that is neither a core nor storage
  double miss_fraction = 0;            ///< of the samples, those that come from storage
  std::vector<SupplyPoint> storage{};  ///< readers rising; between two points straight over the logarithm of readers, beyond them as at the last
  /// Samples a second that storage admits at most, of all readers together, as Linux limits a cgroup: what this rate gives in a slice may be read as
  /// soon as it is asked for. What is left of it is good for the next slice, and then lost.
  double admitted = std::numeric_limits<double>::infinity();
};

/// Samples a second that all workers prepare together, in the long run. Where nothing holds a worker up, that is workers / (its seconds a sample).
/// The cores serve all that ask at once in equal parts; storage serves as many as make it no faster together, and the others after them. Each
/// sample's need is scattered by half around its mean. A worker that waits for one takes none of the other. By discrete events from a fixed seed, so
/// equal cycles give equal rates; about a millisecond. Pure. A cycle that takes no time at all gives infinity.
double cycle_rate(const WorkerCycle& cycle);

}  // namespace dsanalyze
