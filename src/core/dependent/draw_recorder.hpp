#pragma once

#include <cstdint>
#include <span>

#include "remaining_sets.hpp"
#include "sample_subset.hpp"

namespace dsanalyze {

/// Is told what the jobs of a dependent group did, in that order. Threads: those of the group, one at a time. On the data path nothing that waits for
/// long.
class DrawRecorder {
 public:
  virtual ~DrawRecorder() = default;
  /// The job, which needed nothing, needs these samples: an epoch, or what is left of one. `samples`: ascending, not empty.
  virtual void began(std::uint32_t job, std::span<const SampleRange> samples) = 0;
  /// The job is gone: it needs nothing any more, and its number may be another's.
  virtual void ended(std::uint32_t job) = 0;
  struct Drawn {
    SampleId sample = 0;
    JobSet jobs = 0;       ///< that are given it, all of which need it
    bool prepared = true;  ///< false: it came from the store
  };
  /// A round of draws; each job is in one of them at most.
  virtual void drew(std::span<const Drawn> round) = 0;
};

}  // namespace dsanalyze
