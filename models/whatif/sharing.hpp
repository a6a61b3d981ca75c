#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/text/units.hpp"
#include "core/cache_policy/cache_policy.hpp"
#include "core/rates.hpp"
#include "core/sharing_modes.hpp"

namespace dsanalyze {

/// Several equal jobs on one server, e.g. of a hyperparameter search: each trains on the whole dataset every epoch, on accelerators of its own.
struct JobsSetup {
  /// G of ONE job; without it the answer is what the data side can feed each job. P of all cores together; C and S of the server.
  Rates rates;
  std::uint32_t jobs = 1;
  JobSharing sharing = JobSharing::none;

  double cache_fraction = 0;           ///< of the dataset, in the server's cache: one cache for all jobs
  CacheKind cache = CacheKind::minio;  ///< none, minio, lru and page_model_random have closed forms; page and page_model_linux need missed_share
  /// The share of a job's reads that miss the cache, where it is known better: replayed by the cache simulator, or measured. Of an independent job it
  /// is that of its own reads with all others running; of coordinated jobs that of their one sweep.
  std::optional<double> missed_share;

  double batch_samples = 1;      ///< of one job
  double batch_bytes = 0;        ///< of a prepared batch; 0: staging memory is not asked about
  double prefetch_batches = 2;   ///< prepared ahead, by each independent job, or in the staging area
  double hand_over_seconds = 0;  ///< what handing one batch to one job takes
  /// How the stages of fetch, prep and ingestion overlap (core/overlap.hpp): infinite is the bottleneck rule.
  double overlap_exponent = std::numeric_limits<double>::infinity();
};

struct JobsAnswer {
  double samples_per_s_per_job = 0;
  double samples_per_s = 0;  ///< of all jobs together
  // What each stage allows one job, samples/s.
  std::optional<double> ingestion;  ///< with the taking of batches that were handed over
  double prep = 0;                  ///< with the producer's handing over
  double fetch = 0;

  double missed_share = 0;  ///< of the reads of a job, or of the one sweep
  double reads_over_dataset =
      0;  ///< bytes from storage an epoch, of all jobs together, over the dataset's ("read amplification" of [DS-Analyzer] Table 3)
  /// The same over what one job alone would read; 1 where that is nothing. nullopt with missed_share given: what one job would miss
  /// is then not known.
  std::optional<double> reads_over_one_job;
  double prepared_over_dataset = 0;  ///< samples prepared an epoch over the dataset's: the number of jobs, or 1
  double prepared_batches = 0;       ///< held at most: jobs x prefetch, or with a staging area 2 x jobs + prefetch
  double prepared_bytes = 0;         ///< these batches' bytes

  Resource resource = Resource::gpu;  ///< the bottleneck
  Resource next = Resource::gpu;      ///< the bottleneck after it
};

/// The closed form. Of n independent jobs each has 1/n of P, S and C, and misses as n readers of one cache do (core/page_cache_forms.hpp; MinIO's
/// misses do not depend on them). Coordinated jobs sweep the dataset once [CoorDL, section 4.3]: all of P, S and C serves every job, misses are those
/// of one reader, and every job's step takes one hand-over more: 1/G + t / batch. A unified producer [CoorDL, App. E.2.2] hands every batch to all
/// jobs by itself, one after the other: 1/P + n t / batch. The samples/s are those of the slowest stage, or blended by overlap_exponent; equal jobs
/// in lockstep. One job shares with no other: the same as JobSharing::none, whatever was asked. Throws std::domain_error naming the field for a rate
/// that is not above 0, a fraction outside [0, 1], no jobs, negative sizes and times, no batch; and for a cache without a closed form when
/// missed_share is not given. Pure.
JobsAnswer answer_jobs(const JobsSetup& setup);

}  // namespace dsanalyze
