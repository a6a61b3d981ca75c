#pragma once

#include <vector>

#include "core/records/result.hpp"
#include "training_model.hpp"

namespace dsanalyze {

/// What a launched training loses time to beside its number of workers (fix_of()), and what to do about it, the largest gain first. Each advice names
/// the place in the script where it is known, and predicts its gain by rates_of() where the model holds what the change touches:
///   keep-in-memory      samples come from storage in the long run
///   small-files         storage is the bottleneck, and reads open a small file for each sample
///   slow-transform      one function takes a quarter or more of the workers' CPU time; the gain is that of leaving it out
///   threads-of-workers  the workers' own threads ask for more cores than there are
///   persistent-workers  each epoch starts its workers anew
///   outside-of-steps    what the script does between its steps
///   other-processes     other programs use the cores that the workers wait for
///   pin-memory          batches for a GPU lie in pageable memory
/// Nothing is advised that would gain less than a twentieth. `model` is that of `profile`. Pure.
std::vector<AdviceRecord> advise(const ProfileResult& profile, const TrainingModel& model);

}  // namespace dsanalyze
