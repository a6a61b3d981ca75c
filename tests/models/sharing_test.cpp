#include "models/whatif/sharing.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "../base/numbers.hpp"
#include "core/cache_policy/page_cache_forms.hpp"

using namespace dsanalyze;
using testing::infinite;

namespace {

/// Eight one-accelerator jobs: G 2,600 each, P 10,200 of all cores, a tenth of C from storage.
JobsSetup eight_jobs() {
  JobsSetup setup;
  setup.rates = {2600, 10200, 250000, 4700};
  setup.jobs = 8;
  setup.cache_fraction = 1;
  setup.batch_samples = 512;
  setup.batch_bytes = 512.0 * 3 * 224 * 224 * 4;
  return setup;
}

}  // namespace

TEST_CASE("independent jobs have an equal part of prep and of fetching each") {
  const JobsAnswer answer = answer_jobs(eight_jobs());
  CHECK(answer.prep == doctest::Approx(10200.0 / 8));
  CHECK(answer.fetch == doctest::Approx(250000.0 / 8));
  CHECK(answer.samples_per_s_per_job == doctest::Approx(1275));
  CHECK(answer.samples_per_s == doctest::Approx(8 * 1275));
  CHECK(answer.resource == Resource::cpu);
  CHECK(answer.next == Resource::gpu);
  CHECK(answer.prepared_over_dataset == 8);
}

TEST_CASE("coordinated jobs fetch and prepare once, so that the accelerators are the bottleneck") {
  JobsSetup setup = eight_jobs();
  setup.sharing = JobSharing::coordinated;
  const JobsAnswer answer = answer_jobs(setup);
  CHECK(answer.samples_per_s_per_job == doctest::Approx(2600));
  CHECK(answer.resource == Resource::gpu);
  CHECK(answer.prepared_over_dataset == 1);
  CHECK(answer.prep == doctest::Approx(10200));
}

TEST_CASE("one job shares with no other, whatever is asked") {
  JobsSetup setup = eight_jobs();
  setup.jobs = 1;
  setup.cache_fraction = 0.3;
  setup.hand_over_seconds = 1;
  const JobsAnswer alone = answer_jobs(setup);
  for (const JobSharing sharing : {JobSharing::coordinated, JobSharing::unified_producer}) {
    setup.sharing = sharing;
    const JobsAnswer answer = answer_jobs(setup);
    CHECK(answer.samples_per_s_per_job == alone.samples_per_s_per_job);
    CHECK(answer.prepared_batches == alone.prepared_batches);
    CHECK(answer.reads_over_dataset == alone.reads_over_dataset);
  }
  CHECK(alone.samples_per_s_per_job == doctest::Approx(2600));
  CHECK(alone.reads_over_one_job.value() == doctest::Approx(1));
}

TEST_CASE("independent jobs read the dataset's uncached part once each through MinIO, coordinated ones once together") {
  JobsSetup setup = eight_jobs();
  setup.cache_fraction = 0.35;
  CHECK(answer_jobs(setup).reads_over_dataset == doctest::Approx(8 * 0.65));
  CHECK(answer_jobs(setup).reads_over_one_job.value() == doctest::Approx(8));
  setup.sharing = JobSharing::coordinated;
  CHECK(answer_jobs(setup).reads_over_dataset == doctest::Approx(0.65));
  CHECK(answer_jobs(setup).reads_over_one_job.value() == doctest::Approx(1));
}

TEST_CASE("reads through a page cache follow its closed form, with as many readers as there are jobs") {
  JobsSetup setup = eight_jobs();
  setup.cache_fraction = 0.35;
  setup.cache = CacheKind::page_model_random;
  CHECK(answer_jobs(setup).missed_share == random_replacement_misses_of_jobs(0.35, 8));
  setup.sharing = JobSharing::coordinated;
  CHECK(answer_jobs(setup).missed_share == random_replacement_misses(0.35));
  setup.cache = CacheKind::lru;
  CHECK(answer_jobs(setup).missed_share == lru_misses(0.35));
  setup.cache = CacheKind::none;
  CHECK(answer_jobs(setup).missed_share == 1);
}

TEST_CASE("a replayed miss share takes the closed form's place") {
  JobsSetup setup = eight_jobs();
  setup.cache_fraction = 0.35;
  setup.cache = CacheKind::page_model_linux;
  CHECK_THROWS_AS(answer_jobs(setup), std::domain_error);
  setup.missed_share = 0.7;
  const JobsAnswer answer = answer_jobs(setup);
  CHECK(answer.reads_over_dataset == doctest::Approx(5.6));
  CHECK(answer.fetch == doctest::Approx(1 / (8 * (0.3 / 250000 + 0.7 / 4700))));
  CHECK(answer.resource == Resource::io);
  CHECK_FALSE(answer.reads_over_one_job.has_value());
}

TEST_CASE("a hand-over lengthens every job's step, and all of them the unified producer's") {
  JobsSetup setup = eight_jobs();
  setup.sharing = JobSharing::coordinated;
  setup.hand_over_seconds = 512 / 2600.0;  // as long as a step
  CHECK(answer_jobs(setup).samples_per_s_per_job == doctest::Approx(1300));
  CHECK(answer_jobs(setup).prep == doctest::Approx(10200));
  setup.sharing = JobSharing::unified_producer;
  const JobsAnswer unified = answer_jobs(setup);
  CHECK(unified.prep == doctest::Approx(1 / (1 / 10200.0 + 8 / 2600.0)));
  CHECK(unified.resource == Resource::cpu);
}

TEST_CASE("a staging area holds two batches a job and what is prepared ahead; independent jobs hold what each prepares ahead") {
  JobsSetup setup = eight_jobs();
  setup.prefetch_batches = 3;
  CHECK(answer_jobs(setup).prepared_batches == 24);
  setup.sharing = JobSharing::coordinated;
  CHECK(answer_jobs(setup).prepared_batches == 19);
  CHECK(answer_jobs(setup).prepared_bytes == doctest::Approx(19 * 512.0 * 3 * 224 * 224 * 4));
}

TEST_CASE("more jobs never make a job faster, more cache, cores or storage never slower") {
  for (const JobSharing sharing : {JobSharing::none, JobSharing::coordinated, JobSharing::unified_producer}) {
    for (const CacheKind cache : {CacheKind::none, CacheKind::minio, CacheKind::lru, CacheKind::page_model_random}) {
      CAPTURE(job_sharing_name(sharing));
      CAPTURE(cache_kind_name(cache));
      JobsSetup setup = eight_jobs();
      setup.sharing = sharing;
      setup.cache = cache;
      setup.cache_fraction = 0.4;
      setup.hand_over_seconds = 0.0001;
      double before = infinite;
      for (const std::uint32_t jobs : {1U, 2U, 4U, 8U, 64U}) {
        setup.jobs = jobs;
        const double speed = answer_jobs(setup).samples_per_s_per_job;
        CHECK(speed <= before * (1 + 1e-9));
        before = speed;
      }
      before = 0;
      for (const double cached : {0.0, 0.2, 0.5, 0.8, 1.0}) {
        setup.cache_fraction = cached;
        const double speed = answer_jobs(setup).samples_per_s_per_job;
        CHECK(speed >= before);
        before = speed;
      }
      const double base = before;
      setup.rates.prep *= 2;
      setup.rates.storage *= 2;
      CHECK(answer_jobs(setup).samples_per_s_per_job >= base);
    }
  }
}

TEST_CASE("without G the answer is what the data side can feed each job") {
  JobsSetup setup = eight_jobs();
  setup.rates.ingestion.reset();
  setup.sharing = JobSharing::coordinated;
  const JobsAnswer answer = answer_jobs(setup);
  CHECK(answer.samples_per_s_per_job == doctest::Approx(10200));
  CHECK_FALSE(answer.ingestion.has_value());
}

TEST_CASE("stages that overlap imperfectly delay one another") {
  JobsSetup setup = eight_jobs();
  setup.rates.ingestion = 1275;  // as fast as an eighth of P
  CHECK(answer_jobs(setup).samples_per_s_per_job == doctest::Approx(1275));
  setup.overlap_exponent = 2;
  CHECK(answer_jobs(setup).samples_per_s_per_job == doctest::Approx(1275 / std::sqrt(2)).epsilon(0.001));
  setup.overlap_exponent = 1;
  CHECK(answer_jobs(setup).samples_per_s_per_job == doctest::Approx(1275.0 / 2).epsilon(0.03));
}

TEST_CASE("jobs that make no sense are refused by the field's name") {
  const auto refused = [](auto change) {
    JobsSetup setup = eight_jobs();
    change(setup);
    CHECK_THROWS_AS(answer_jobs(setup), std::domain_error);
  };
  const double no_number = std::nan("");
  refused([](JobsSetup& setup) { setup.jobs = 0; });
  for (const double bad : {0.0, -1.0, no_number}) {
    refused([bad](JobsSetup& setup) { setup.rates.ingestion = bad; });
    refused([bad](JobsSetup& setup) { setup.rates.prep = bad; });
    refused([bad](JobsSetup& setup) { setup.rates.cache = bad; });
    refused([bad](JobsSetup& setup) { setup.rates.storage = bad; });
    refused([bad](JobsSetup& setup) { setup.batch_samples = bad; });
    refused([bad](JobsSetup& setup) { setup.overlap_exponent = bad; });
  }
  for (const double bad : {-0.1, 1.1, no_number}) {
    refused([bad](JobsSetup& setup) { setup.cache_fraction = bad; });
    refused([bad](JobsSetup& setup) { setup.missed_share = bad; });
  }
  for (const double bad : {-1.0, infinite, no_number}) {
    refused([bad](JobsSetup& setup) { setup.batch_bytes = bad; });
    refused([bad](JobsSetup& setup) { setup.prefetch_batches = bad; });
    refused([bad](JobsSetup& setup) { setup.hand_over_seconds = bad; });
  }
  JobsSetup setup = eight_jobs();
  setup.cache_fraction = 2;
  CHECK_THROWS_WITH(answer_jobs(setup), "the cached fraction must lie between 0 and 1, found 2");
}
