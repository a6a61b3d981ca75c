#include "profile/jobs/job_record.hpp"

#include <doctest/doctest.h>

#include <array>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"
#include "profile/jobs/child_jobs.hpp"
#include "profile/jobs/job_channel.hpp"
#include "profile/jobs/job_runs.hpp"

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

TEST_CASE("What a job for itself trained on while slower ones finished is no epoch of all") {
  JobsMeasured measured;
  measured.jobs.resize(3);
  for (JobRecord& job : measured.jobs) job.epochs = {part(600)};
  for (const std::size_t fast : {0, 2}) measured.jobs[fast].epochs.emplace_back(part(600)).epoch = 4;
  const auto epochs = [&measured](JobSharing share, int trials) {
    JobsMeasured each = measured;
    ProfileSettings settings;
    settings.share = share;
    settings.trials = trials;
    add_epochs(each, settings);
    return each.all.record.epochs.size();
  };
  CHECK(epochs(JobSharing::none, 0) == 1);
  CHECK(epochs(JobSharing::none, 4) == 2);
  CHECK(epochs(JobSharing::coordinated, 0) == 2);
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

TEST_CASE("The fastest job is of those with the fastest accelerators, and where those are alike the one that had its epochs first") {
  const auto job = [](int number, double seconds, std::optional<double> speed, std::size_t epochs = 3) {
    JobRecord record;
    record.job = number;
    record.end = JobEnd::finished;
    record.seconds = seconds;
    record.first_batch_seconds = 1;
    record.speed = speed;
    record.epochs.resize(epochs);
    record.samples = 60 * epochs;
    return record;
  };
  CHECK(fastest_job(std::vector{job(0, 9, 0.3), job(1, 5, 0.6), job(2, 5.5, 1)}) == 2);
  CHECK(fastest_job(std::vector{job(0, 9, {}), job(1, 5, {}), job(2, 5.5, {})}) == 1);
  CHECK(fastest_job(std::vector{job(0, 9, 0.3, 1), job(1, 9, 1, 2), job(2, 9, 1, 1)}) == 1);
  std::vector died{job(0, 3, 1), job(1, 5, 0.5)};
  died[0].end = JobEnd::died;
  CHECK(fastest_job(died) == 1);
  CHECK_FALSE(fastest_job({}).has_value());
}

TEST_CASE("Jobs whose time is over are killed once, and those that have ended by then are none of them") {
  JobsDeadline deadline;
  CHECK_FALSE(deadline.is_set());
  CHECK_FALSE(deadline.expires(1000, 2));
  deadline.set({500});
  CHECK(deadline.is_set());
  CHECK_FALSE(deadline.expires(499, 2));
  CHECK_FALSE(deadline.expires(500, 0));
  CHECK(deadline.expires(501, 2));
  CHECK_FALSE(deadline.expires(502, 2));
  CHECK(deadline.is_set());
  CHECK(did_not_end_text(1).starts_with("1 job was still at work long after the time budget was over, and was killed"));
  CHECK(did_not_end_text(3).starts_with("3 jobs were still at work long after the time budget was over, and were killed"));
}

namespace {

/// Two epochs of one batch each, which were ready long before.
class ReadyBatches final : public BatchSource {
 public:
  Status next(Batch& batch, Deadline /*deadline*/) override {
    if (m_next == 2) return {StatusCode::end, 0};
    batch.epoch = m_next++;
    batch.count = 2;
    return {};
  }
  void release(ReleaseToken /*token*/) override {}
  [[nodiscard]] const std::byte* memory(const Batch& /*batch*/) const override { return m_memory.data(); }
  void stop() override {}
  [[nodiscard]] std::string failure() const override { return {}; }

 private:
  std::uint64_t m_next = 0;
  std::array<std::byte, 64> m_memory{};
};

}  // namespace

TEST_CASE("An epoch whose batches were ready, and trained on, before the job asked for its first took the time of its steps and no less") {
  ReadyBatches source;
  JobBatches batches(source, BatchCopy::none, 0, system_timing());
  Batch batch;
  while (batches.next(batch, {}).ok()) continue;
  constexpr Nanoseconds ms = 1'000'000;
  TrainingLog log;
  log.begun = 1000 * ms;
  log.ended = 1001 * ms;
  log.completions = {{{}, 0, 0, 2, true, 990 * ms, 990 * ms, 994 * ms, 0}, {{}, 1, 1, 2, true, 991 * ms, 994 * ms, 998 * ms, 0}};
  ProfileInputs inputs;
  DatasetSpec spec;
  spec.name = "few";
  spec.samples = 2;
  spec.mean_sample_bytes = 100;
  inputs.index = make_emulated_index(spec, 0, 1, 1);
  const auto trainer = make_null_trainer();
  const JobRecord record = record_job(inputs, log, batches, *trainer, {});
  REQUIRE(record.epochs.size() == 2);
  CHECK(record.epochs[0].seconds == doctest::Approx(0.004));
  CHECK(record.epochs[1].seconds == doctest::Approx(0.004));
  CHECK(job_from_json(to_json(record), "job").epochs.size() == 2);
}
