#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dependent/prepared_store.hpp"
#include "core/dependent/sample_subset.hpp"
#include "core/records/job_mix.hpp"
#include "core/records/job_mix_result.hpp"
#include "whatif.hpp"

namespace dsanalyze {

/// A job of a mix with all that its file left open filled in.
struct MixedJob {
  double samples_per_s = 0;  ///< its own speed
  double arrival_seconds = 0;
  std::vector<SampleRange> samples;  ///< of its epochs
  std::uint32_t batch_size = 1;
  std::uint32_t epochs = 1;
};

/// How independent jobs go on that have `supply(n)` samples/s in all while n of them run, in equal parts but for those that need less: rates by
/// max-min fairness, piecewise constant. Returns when each ends, seconds. Pure.
std::vector<double> independent_ends(std::span<const MixedJob> jobs, const std::function<double(std::uint32_t)>& supply);

struct JobMixQuestion {
  JobMix mix;
  std::string path;                     ///< of its file, for errors
  std::vector<JobSharing> shares;       ///< empty: dependent
  std::vector<double> staging;          ///< of dependent: fractions of the dataset's samples; empty: nothing is kept
  std::vector<StagingPolicy> policies;  ///< with `staging`; empty: refcnt
  std::uint64_t seed = 1;
};

/// Each job's rate and completion time, and what is prepared, for each way of sharing. `setup` may change the measured configuration by one value of
/// each of its lists. Dependent: by the simulator (models/simulate/job_mix_simulator.hpp). `findings` gets what cannot be taken at its word.
/// `progress` may throw. Throws UsageError that names the option, or file and JSON pointer. Pure.
WhatIfJobMix answer_job_mix(const RateModel& model, const WhatIfQuestion& setup, const JobMixQuestion& question, std::vector<Finding>& findings,
                            const std::function<void(double)>& progress = {});

}  // namespace dsanalyze
