#pragma once

#include "runs.hpp"

namespace dsanalyze {

/// The full run of several jobs on this server: of all together, and of each.
struct JobsMeasured {
  Measured all;
  std::vector<JobRecord> jobs;
  SharingRecord sharing;
  std::vector<SearchTrialRecord> trials;
};

/// What full runs begin with: everything cold, the cache and its admission as the settings have them.
Pipeline::Spec full_spec(RunContext& context);

/// Jobs that each fetch and prepare for themselves, with one cache and the same devices; each in its own order.
JobsMeasured run_independent_jobs(RunContext& context, double seconds);
/// Jobs that share every batch; each a process of its own.
JobsMeasured run_coordinated_jobs(RunContext& context, double seconds);

/// Adds up what the jobs and their trials found. `seconds`: of the run.
void sum_up(RunContext& context, JobsMeasured& measured, double seconds);

}  // namespace dsanalyze
