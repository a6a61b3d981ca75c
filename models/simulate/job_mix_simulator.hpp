#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/dependent/prepared_store.hpp"
#include "core/dependent/sample_subset.hpp"

namespace dsanalyze {

/// Jobs that draw dependently from one dataset [JOADER], and what prepares for them.
struct DependentMix {
  struct Job {
    double samples_per_s = 0;  ///< that it trains on when it waits for nothing
    double arrival_seconds = 0;
    std::vector<SampleRange> samples;  ///< of its epochs, ascending; empty: the whole dataset
    std::uint32_t batch_size = 1;
    std::uint32_t epochs = 1;
  };
  std::vector<Job> jobs;  ///< at most most_dependent_jobs
  std::uint32_t samples = 0;
  double prep_samples_per_s = 0;   ///< P of all workers; may be infinite
  double fetch_samples_per_s = 0;  ///< F of what is prepared once for all; may be infinite
  std::uint32_t workers = 1;       ///< of prep, each of which takes workers / P a sample
  std::uint32_t in_flight = 64;    ///< samples fetched and prepared at once
  std::uint32_t slots = 6;         ///< batches that a job may have drawn and not released
  std::uint32_t store_places = 0;  ///< prepared samples kept for jobs that draw them later
  StagingPolicy policy = StagingPolicy::refcnt;
  double patience_seconds = 0.1;  ///< that a slot with room waits at most for others to draw with
  std::uint64_t seed = 1;
};

struct DependentMixOutcome {
  struct Job {
    double start_seconds = 0;  ///< it arrives
    double end_seconds = 0;    ///< it has trained on its last batch
    std::uint64_t drawn = 0;
    double prepared = 0;               ///< preparings that its draws caused; one for several jobs counts for each as a part
    std::uint64_t prepared_while = 0;  ///< preparings of all jobs between its start and its end
  };
  std::vector<Job> jobs;
  std::uint64_t rounds = 0;  ///< of draws
  std::uint64_t drawn = 0;   ///< samples, once for each job
  std::uint64_t prepared = 0;
  std::uint64_t from_store = 0;  ///< samples that were drawn and had been prepared before
};

/// How many draws a mix takes.
std::uint64_t draws_of(const DependentMix& mix);
/// A mix that stands for `mix` with at most so many draws where that can be: a dataset, batches, store and times smaller by the same factor, at
/// speeds that stay. `factor` is at least 1; times of its outcome count `factor` times.
struct ScaledMix {
  DependentMix mix;
  double factor = 1;
};
ScaledMix scaled_mix(const DependentMix& mix, std::uint64_t max_draws);

/// Discrete events: the draws are those of the sampler and the store that the coordinator uses (core/dependent), called when it would call them (a
/// slot has room, half of a job's slots do, patience ends; share/dependent_feed.hpp). Fetch and prep are queues of constant service times. Copies and
/// the exchange of messages take no time. `progress` is called now and then with the part that is done, and may throw. Throws std::domain_error
/// naming the field for a rate that is not above 0, no jobs, no samples, no slots. Pure.
DependentMixOutcome simulate_dependent_mix(const DependentMix& mix, const std::function<void(double)>& progress = {});

}  // namespace dsanalyze
