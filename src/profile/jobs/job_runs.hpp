#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "profile/runs.hpp"

namespace dsanalyze {

/// What an epoch of all jobs took, where that is known of the server and not of its jobs.
struct ServerEpoch {
  std::optional<std::uint64_t> cache_hits;
  std::optional<std::uint64_t> cache_misses;
  std::optional<Bytes> requested_bytes;
  std::optional<Bytes> storage_bytes;
};

/// The full run of several jobs on this server: of all together, and of each.
struct JobsMeasured {
  Measured all;
  std::map<std::uint64_t, ServerEpoch> server_epochs;  ///< by number; what is known here counts for more than the jobs' sum
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

/// Jobs that each go at their own speed, and draw so that they often need the same samples; each a process of its own.
JobsMeasured run_dependent_jobs(RunContext& context, double seconds);

/// The epochs of all jobs, from theirs. A job for itself goes on until the slowest has done its epochs: what it trained on beyond them is no epoch of
/// all. A job that died, and a search, whose trials end one after another, leave epochs of those that remain.
void add_epochs(JobsMeasured& measured, const ProfileSettings& settings);

/// Adds up what the jobs and their trials found. `seconds`: of the run.
void sum_up(RunContext& context, JobsMeasured& measured, double seconds);

}  // namespace dsanalyze
