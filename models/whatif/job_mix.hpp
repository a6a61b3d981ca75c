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

/// What two jobs share that draw dependently at fixed speeds, in the limit of many samples, without a store.
struct TwoJobsShared {
  double shared = 0;                ///< samples that both got from one preparing
  double prepared_per_fastest = 0;  ///< preparings while the faster one runs, over its samples
};
/// The closed form. Let a and b be what the faster and the slower job still need, c what both need, and r the ratio of their speeds. In a draw of
/// both they get the same sample with probability c / max(a, b) [JOADER, Theorem 1]; while a <= b, c is in proportion to a, else to b a^(1 - r).
/// Where a job starts an epoch, c is what the other still needs of its samples, as every order is uniform. Between these points the integrals are
/// elementary. It supposes that prep keeps up with both, and that the slower one's draws are all made together with the faster one's. Pure.
TwoJobsShared two_jobs_shared(const MixedJob& one, const MixedJob& other);

/// How independent jobs go on that have `supply(n)` samples/s in all while n of them run, in equal parts but for those that need less: rates by
/// max-min fairness, piecewise constant. Returns when each ends, seconds. Pure.
std::vector<double> independent_ends(std::span<const MixedJob> jobs, const std::function<double(std::uint32_t)>& supply);

struct JobMixQuestion {
  JobMix mix;
  std::string path;                     ///< of its file, for errors
  std::vector<JobSharing> shares;       ///< empty: dependent
  std::vector<double> staging;          ///< of dependent: fractions of the dataset's samples; empty: nothing is kept
  std::vector<StagingPolicy> policies;  ///< with `staging`; empty: refcnt
  bool simulate = false;                ///< also where there is a closed form
  std::uint64_t seed = 1;
};

/// Each job's rate and completion time, and what is prepared, for each way of sharing. `setup` may change the measured configuration by one value of
/// each of its lists. Dependent: by the closed form where there is one (one job; jobs in step; two jobs with batches of one size, without store, that
/// prep and fetch keep up with), else by the simulator (models/simulate/job_mix_simulator.hpp). `findings` gets what cannot be taken at its word.
/// `progress` may throw. Throws UsageError that names the option, or file and JSON pointer. Pure.
WhatIfJobMix answer_job_mix(const RateModel& model, const WhatIfQuestion& setup, const JobMixQuestion& question, std::vector<Finding>& findings,
                            const std::function<void(double)>& progress = {});

}  // namespace dsanalyze
