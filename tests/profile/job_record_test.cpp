#include "profile/jobs/job_record.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "profile/jobs/job_channel.hpp"

using namespace dsanalyze;

namespace {

/// A job's epoch of 600 samples, of which it prepared `prepared` and found all but ten in the cache.
JobEpochRecord part(std::uint64_t prepared, double seconds = 2, const char* digest = "same") {
  JobEpochRecord record;
  record.epoch = 3;
  record.seconds = seconds;
  record.samples = 600;
  record.digest = digest;
  record.samples_prepared = prepared;
  record.cache_hits = prepared > 10 ? prepared - 10 : 0;
  record.cache_misses = prepared - *record.cache_hits;
  record.requested_bytes = 1000;
  return record;
}

EpochRecord of(const std::vector<JobEpochRecord>& jobs, JobSharing share) {
  std::vector<const JobEpochRecord*> parts;
  for (const JobEpochRecord& job : jobs) parts.push_back(&job);
  return epoch_of_all(parts, share);
}

}  // namespace

TEST_CASE("A job's process is told its number, its speed and its first trial; what is no such line is refused") {
  const job_messages::Start start = job_messages::parse_start(job_messages::start({2, 0.45, 7}));
  CHECK(start.job == 2);
  CHECK(start.speed == 0.45);
  CHECK(start.trial == 7);
  CHECK_FALSE(job_messages::parse_start(job_messages::start({0, 1, std::nullopt})).trial.has_value());
  for (const char* line : {"", "stop", "{}", R"({"job": -1, "speed": 1})", R"({"job": 1, "speed": "fast"})", R"({"job": 1, "speed": 1, "more": 2})"})
    CHECK_THROWS_AS(static_cast<void>(job_messages::parse_start(line)), UsageError);
}

TEST_CASE("An epoch of jobs that draw dependently says nothing of what was fetched for it: the coordinator fetched for all") {
  JobEpochRecord own = part(0);
  own.cache_hits = own.cache_misses = own.requested_bytes = 0;
  const EpochRecord all = of({own, own}, JobSharing::dependent);
  CHECK(all.samples == 1200);
  CHECK(all.digest == "same");
  CHECK_FALSE(all.cache_hits.has_value());
  CHECK_FALSE(all.requested_bytes.has_value());
}

TEST_CASE("An epoch of all jobs has the mean of their times, and what all of them prepared and fetched") {
  const EpochRecord all = of({part(400, 1), part(200, 3)}, JobSharing::coordinated);
  CHECK(all.epoch == 3);
  CHECK(all.seconds == doctest::Approx(2));
  CHECK(all.samples == 1200);
  CHECK(all.digest == "same");
  CHECK(all.cache_hits == 580);
  CHECK(all.cache_misses == 20);
  CHECK(all.requested_bytes == 2000);
  CHECK(of({part(400), part(200, 2, "other")}, JobSharing::coordinated).digest.empty());
}

TEST_CASE("What an epoch fetched is not known where a job that died prepared for it") {
  const auto unknown = [](const std::vector<JobEpochRecord>& jobs) {
    const EpochRecord all = of(jobs, JobSharing::coordinated);
    return !all.cache_hits && !all.cache_misses && !all.requested_bytes;
  };
  CHECK(unknown({part(300), part(236)}));  // the dead job made a batch that both others had used
  CHECK(unknown({part(400), part(264)}));  // and a batch of a survivor gave way to one of the dead job's, and was made again
  CHECK_FALSE(unknown({part(400), part(200)}));
  CHECK_FALSE(unknown({part(600), part(0)}));
}

TEST_CASE("Jobs that share nothing each prepare all, and their fetches add up where each says") {
  CHECK(of({part(600), part(600)}, JobSharing::none).cache_misses == 20);
  JobEpochRecord silent = part(600);
  silent.cache_misses.reset();
  const EpochRecord all = of({silent, part(600)}, JobSharing::none);
  CHECK_FALSE(all.cache_misses);
  CHECK(all.cache_hits == 1180);
}
