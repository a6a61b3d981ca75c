#include "sharing.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <stdexcept>

#include "core/cache_policy/page_cache_forms.hpp"
#include "core/rates.hpp"
#include "setup_checks.hpp"

namespace dsanalyze {
namespace {

void check(const JobsSetup& setup) {
  require_rates(setup.rates);
  if (setup.jobs == 0) throw std::domain_error("the number of jobs must be at least 1, found 0");
  require_share("the cached fraction", setup.cache_fraction);
  if (setup.missed_share) require_share("the missed share", *setup.missed_share);
  require_at_least("the batch", 1, setup.batch_samples);
  require_at_least("a prepared batch's bytes", 0, setup.batch_bytes);
  require_at_least("the batches prepared ahead", 0, setup.prefetch_batches);
  require_at_least("the time of a hand-over", 0, setup.hand_over_seconds);
  if (!(setup.overlap_exponent >= 1))
    throw std::domain_error(fmt::format("the exponent of overlap must be at least 1, found {}", setup.overlap_exponent));
}

/// Of a reader's reads, with so many readers on the cache.
double missed_share(const JobsSetup& setup, std::uint32_t readers) {
  switch (setup.cache) {
    case CacheKind::none:
      return 1;
    case CacheKind::minio:
      return 1 - setup.cache_fraction;
    case CacheKind::lru:
      return lru_misses_of_jobs(setup.cache_fraction, readers);
    case CacheKind::page_model_random:
      return random_replacement_misses_of_jobs(setup.cache_fraction, readers);
    case CacheKind::page:
    case CacheKind::page_model_linux:
      break;
  }
  throw std::domain_error(fmt::format("the cache {} has no closed form: give the share that it misses", cache_kind_name(setup.cache)));
}

/// Samples/s of one job from what each stage allows it.
double blended(const JobsSetup& setup, const JobsAnswer& answer) {
  const std::array<double, 3> seconds = {1 / answer.fetch, 1 / answer.prep, answer.ingestion ? 1 / *answer.ingestion : 0};
  return 1 / overlapped_seconds(std::span(seconds).first(answer.ingestion ? 3 : 2), setup.overlap_exponent);
}

}  // namespace

JobsAnswer answer_jobs(const JobsSetup& setup) {
  check(setup);
  const JobSharing sharing = setup.jobs == 1 ? JobSharing::none : setup.sharing;
  const bool shares = sharing != JobSharing::none;
  const double jobs = setup.jobs;
  const double sweeps = shares ? 1 : jobs;

  JobsAnswer answer;
  answer.missed_share = setup.missed_share ? *setup.missed_share : missed_share(setup, shares ? 1 : setup.jobs);
  answer.fetch = effective_fetch_rate(1 - answer.missed_share, setup.rates.cache, setup.rates.storage) / sweeps;
  answer.prep = setup.rates.prep / sweeps;
  answer.ingestion = setup.rates.ingestion;
  const double hand_over = setup.hand_over_seconds / setup.batch_samples;
  if (shares && answer.ingestion) answer.ingestion = 1 / (1 / *answer.ingestion + hand_over);
  if (sharing == JobSharing::unified_producer) answer.prep = 1 / (1 / answer.prep + jobs * hand_over);

  const BottleneckRule rule = bottleneck(answer.fetch, answer.prep, answer.ingestion);
  answer.resource = rule.resource;
  answer.next = rule.next;
  answer.samples_per_s_per_job = blended(setup, answer);
  answer.samples_per_s = jobs * answer.samples_per_s_per_job;

  answer.reads_over_dataset = sweeps * answer.missed_share;
  if (!setup.missed_share) {
    const double alone = missed_share(setup, 1);
    answer.reads_over_one_job = alone > 0 ? answer.reads_over_dataset / alone : 1;
  }
  answer.prepared_over_dataset = sweeps;
  answer.prepared_batches = shares ? 2 * jobs + setup.prefetch_batches : jobs * setup.prefetch_batches;
  answer.prepared_bytes = answer.prepared_batches * setup.batch_bytes;
  return answer;
}

}  // namespace dsanalyze
