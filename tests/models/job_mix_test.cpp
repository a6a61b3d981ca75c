#include "models/whatif/job_mix.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "two_jobs.hpp"

using namespace dsanalyze;

namespace {

constexpr std::uint32_t dataset_samples = 20'000;

JobMixQuestion asked_of(const std::string& jobs) {
  JobMixQuestion question;
  question.path = "mix.json";
  question.mix = parse_job_mix(R"({"samples": 20000, "jobs": [)" + jobs + "]}", "mix.json");
  return question;
}

RateModel typed_model(const std::string& rates = "G=2000,P=1500,C=100000,S=50000") { return rate_model_from_text(rates, ""); }

WhatIfJobMix mix_answer(const JobMixQuestion& question, const RateModel& model = typed_model(), const WhatIfQuestion& setup = {}) {
  std::vector<Finding> findings;
  return answer_job_mix(model, setup, question, findings);
}

const std::string two_jobs = R"({"samples_per_s": 600, "batch_size": 16, "epochs": 4}, {"samples_per_s": 300, "batch_size": 16, "epochs": 2})";

MixedJob whole_job(double samples_per_s, std::uint32_t epochs, double arrival = 0) {
  return {samples_per_s, arrival, {{0, dataset_samples}}, 16, epochs};
}

}  // namespace

TEST_CASE("two jobs of one speed and start share everything, of disjoint samples nothing, and what overlaps bounds what they share") {
  CHECK(two_jobs_shared(whole_job(1000, 3), whole_job(1000, 3)).shared == doctest::Approx(3 * dataset_samples));
  MixedJob low = whole_job(1000, 3);
  MixedJob high = whole_job(1000, 3);
  low.samples = {{0, 10'000}};
  high.samples = {{10'000, 20'000}};
  CHECK(two_jobs_shared(low, high).shared == 0);
  CHECK(two_jobs_shared(low, high).prepared_per_fastest == doctest::Approx(2));
  // Equal sizes in step: of both epochs what both need, |I| / |D| in every round [JOADER, Theorem 1].
  high.samples = {{4'000, 14'000}};
  CHECK(two_jobs_shared(low, high).shared == doctest::Approx(3 * 6'000));
}

TEST_CASE("a job of half the speed gets 47 % of its samples from preparings for the other") {
  // The fast one has two epochs in the slow one's. First a = 1 - t, b = 1 - t/2 and c = a: the integral of r a/b is 1 + ln(1/2). Then a = 1 - t,
  // b = (1 - t)/2 and c = b a^(1/2): that of r c/a is 1/6.
  const double expected = 1 + std::log(0.5) + 1.0 / 6;
  const TwoJobsShared shared = two_jobs_shared(whole_job(1000, 2), whole_job(500, 1));
  CHECK(shared.shared / dataset_samples == doctest::Approx(expected));
  CHECK(shared.prepared_per_fastest == doctest::Approx((3 - expected) / 2));
}

TEST_CASE("jobs that meet for a while share in that time alone") {
  const TwoJobsShared apart = two_jobs_shared(whole_job(1000, 1), whole_job(500, 1, 20));
  CHECK(apart.shared == 0);
  CHECK(apart.prepared_per_fastest == 1);
  // The slower one comes when half of the other's epoch is left: a <= b all the while, c = a, and r a/b is integrated over a from 1/2 to 0.
  const TwoJobsShared late = two_jobs_shared(whole_job(1000, 1), whole_job(500, 1, 10));
  const double expected = 0.5 + (0.5 - 2) * std::log(1 / 0.75);
  CHECK(late.shared / dataset_samples == doctest::Approx(expected));
}

TEST_CASE("independent jobs divide prep in equal parts, but for those that need less, and go faster when one has ended") {
  const std::vector<MixedJob> jobs{whole_job(1000, 1), whole_job(100, 1), whole_job(1000, 1, 50)};
  const std::vector<double> ends = independent_ends(jobs, [](std::uint32_t) { return 700; });
  // Until 50 s: 600 and 100 samples/s. Then the first would take more than is left: it ends at 33.3 s.
  CHECK(ends[0] == doctest::Approx(20'000 / 600.0));
  CHECK(ends[1] == doctest::Approx(200));
  CHECK(ends[2] == doctest::Approx(50 + 20'000 / 600.0));
  const std::vector<double> crowded = independent_ends(std::vector{whole_job(1000, 1), whole_job(1000, 2)}, [](std::uint32_t) { return 700; });
  CHECK(crowded[0] == doctest::Approx(20'000 / 350.0));
  CHECK(crowded[1] == doctest::Approx(60'000 / 700.0));
}

TEST_CASE("two jobs that prep keeps up with reach what their closed form says") {
  const WhatIfJobMix mix = mix_answer(asked_of(two_jobs));
  REQUIRE(mix.answers.size() == 1);
  const WhatIfJobMix::Answer& answer = mix.answers[0];
  CHECK(answer.method == "simulated");
  CHECK(answer.prepared_per_fastest == doctest::Approx((3 - 1 - std::log(0.5) - 1.0 / 6) / 2).epsilon(0.01));
  CHECK(answer.jobs[0].samples_per_s == doctest::Approx(600).epsilon(0.005));
  CHECK(answer.jobs[1].samples_per_s == doctest::Approx(300).epsilon(0.005));
  CHECK(answer.jobs[0].completion_seconds == doctest::Approx(80'000 / 600.0).epsilon(0.005));
  CHECK(answer.makespan_seconds == doctest::Approx(80'000 / 600.0).epsilon(0.005));
  CHECK(answer.mean_completion_seconds == doctest::Approx(80'000 / 600.0).epsilon(0.005));
}

TEST_CASE("a store has the fastest job wait for fewer preparings") {
  JobMixQuestion with_store = asked_of(two_jobs);
  with_store.staging = {0.0, 0.25};
  with_store.policies = {StagingPolicy::refcnt, StagingPolicy::lru};
  const WhatIfJobMix stored = mix_answer(with_store);
  REQUIRE(stored.answers.size() == 3);  // without a store there is no policy to try
  CHECK(stored.answers[1].staging_policy == "refcnt");
  CHECK(stored.answers[2].staging_policy == "lru");
  CHECK(stored.answers[1].prepared_per_fastest < stored.answers[0].prepared_per_fastest);
  CHECK(stored.answers[1].from_store_fraction > 0.05);
}

TEST_CASE("where prep does not keep up, jobs that share dependently go faster than alone and than in step") {
  JobMixQuestion question =
      asked_of(R"({"samples_per_s": 1000, "batch_size": 16, "epochs": 4}, {"samples_per_s": 1000, "batch_size": 16, "epochs": 4},
      {"samples_per_s": 400, "batch_size": 16, "epochs": 4})");
  question.shares = {JobSharing::none, JobSharing::coordinated, JobSharing::dependent};
  const WhatIfJobMix mix = mix_answer(question, typed_model("G=2000,P=1100,C=100000,S=50000"));
  REQUIRE(mix.answers.size() == 3);
  CHECK(mix.answers[0].share == "none");
  CHECK(mix.answers[0].jobs[0].samples_per_s == doctest::Approx(1100 / 3.0).epsilon(0.05));
  CHECK(mix.answers[1].jobs[0].samples_per_s == doctest::Approx(400));
  CHECK(mix.answers[1].prepared_per_sample == doctest::Approx(1 / 3.0));
  CHECK(mix.answers[2].jobs[0].samples_per_s > 2 * mix.answers[1].jobs[0].samples_per_s);
  CHECK(mix.answers[2].mean_completion_seconds < 0.7 * mix.answers[0].mean_completion_seconds);
  question.mix.jobs[0].batch_size = 8;
  CHECK(mix_answer(question).answers[1].not_predicted == "jobs that go in step need one batch size, one number of epochs and the same samples");
}

TEST_CASE("a speed may be a ratio to G, and the configuration one that is changed in one value of each list") {
  const WhatIfJobMix mix = mix_answer(asked_of(R"({"speed_ratio": 0.4, "batch_size": 16, "epochs": 1})"));
  CHECK(mix.jobs[0].samples_per_s == doctest::Approx(800));
  CHECK(mix.jobs[0].epoch_samples == dataset_samples);
  CHECK(mix.jobs[0].name == "job 0");
  WhatIfQuestion setup;
  setup.cores = {{std::nullopt, 0.5}};
  CHECK(mix_answer(asked_of(two_jobs), typed_model(), setup).prep == doctest::Approx(750));
  setup.cores.push_back({std::nullopt, 2});
  CHECK_THROWS_WITH_AS(mix_answer(asked_of(two_jobs), typed_model(), setup), doctest::Contains("one value of each"), UsageError);
}

TEST_CASE("a mix that is too large is simulated smaller, and says so") {
  JobMixQuestion question = asked_of(two_jobs + R"(,{"samples_per_s": 100, "batch_size": 16, "epochs": 1})");
  question.mix.samples = 4'000'000'000;
  std::vector<Finding> findings;
  const WhatIfJobMix mix = answer_job_mix(typed_model(), {}, question, findings);
  CHECK(mix.answers[0].scale > 1000);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "job-mix-scaled");
  CHECK(mix.answers[0].jobs[0].samples_per_s == doctest::Approx(600).epsilon(0.01));
}

TEST_CASE("what is wrong with a job mix is refused by file and place") {
  const auto refused = [](const std::string& text, const std::string& message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(static_cast<void>(parse_job_mix(text, "mix.json")), doctest::Contains(message.c_str()), UsageError);
  };
  const std::string job = R"("batch_size": 1, "epochs": 1)";
  refused("[]", "mix.json");
  refused(R"({"jobs": []})", "mix.json: /jobs: found 0 jobs, expected 1 to 64");
  refused(R"({"jobs": [{"samples_per_s": 1}]})", "mix.json: /jobs/0/batch_size");
  refused(R"({"jobs": [{"samples_per_s": 1, "batch_size": 0, "epochs": 1}]})", "mix.json: /jobs/0/batch_size: found 0");
  refused(R"({"jobs": [{"samples_per_s": 1, "batch_size": 1e99, "epochs": 1}]})", "mix.json: /jobs/0/batch_size");
  refused(R"({"jobs": [{"samples_per_s": 1, "batch_size": 1, "epochs": 10001}]})", "mix.json: /jobs/0/epochs");
  refused(R"({"jobs": [{"samples_per_s": 0, )" + job + "}]}", "mix.json: /jobs/0/samples_per_s: found 0");
  refused(R"({"jobs": [{"speed_ratio": -1, )" + job + "}]}", "mix.json: /jobs/0/speed_ratio: found -1");
  refused(R"({"jobs": [{)" + job + "}]}", "mix.json: /jobs/0: found none of samples_per_s and speed_ratio");
  refused(R"({"jobs": [{"speed_ratio": 1, "samples_per_s": 1, )" + job + "}]}", "mix.json: /jobs/0: found both");
  refused(R"({"jobs": [{"samples_per_s": 1, "arrival_seconds": -1, )" + job + "}]}", "mix.json: /jobs/0/arrival_seconds");
  refused(R"({"jobs": [{"samples_per_s": 1, "arival_seconds": 1, )" + job + "}]}", "did you mean \"arrival_seconds\"");
  refused(R"({"jobs": [{"samples_per_s": 1, "name": "", )" + job + "}]}", "mix.json: /jobs/0/name");
  refused(R"({"jobs": [{"samples_per_s": 1, "name": "a\u001b[31m", )" + job + "}]}", "mix.json: /jobs/0/name");
  refused(R"({"jobs": [{"samples_per_s": 1, "subset": 7, )" + job + "}]}", "mix.json: /jobs/0/subset");
  refused(R"({"samples": 5000000000, "jobs": [{"samples_per_s": 1, )" + job + "}]}", "mix.json: /samples");
  std::string many = R"({"samples_per_s": 1, "batch_size": 1, "epochs": 200})";
  for (int i = 1; i < 51; ++i) many += R"(,{"samples_per_s": 1, "batch_size": 1, "epochs": 200})";
  refused(R"({"jobs": [)" + many + "]}", "mix.json: /jobs: found 10200 epochs of all jobs together");

  const auto unanswered = [](const JobMixQuestion& question, const RateModel& model, const std::string& message) {
    CHECK_THROWS_WITH_AS(mix_answer(question, model), doctest::Contains(message.c_str()), UsageError);
  };
  unanswered(asked_of(two_jobs + R"(,{"samples_per_s": 1, "subset": "5-x", )" + job + "}"), typed_model(), "mix.json: /jobs/2/subset: found \"5-x\"");
  unanswered(asked_of(R"({"samples_per_s": 1, "subset": "20000", )" + job + "}"), typed_model(), "mix.json: /jobs/0/subset: found \"20000\"");
  unanswered(asked_of(R"({"speed_ratio": 1, )" + job + "}"), typed_model("P=1,C=9,S=9"), "mix.json: /jobs/0/speed_ratio: is a ratio to G");
  JobMixQuestion without = asked_of(two_jobs);
  without.mix.samples.reset();
  unanswered(without, typed_model(), "mix.json: /samples: is missing");
  JobMixQuestion unified = asked_of(two_jobs);
  unified.shares = {JobSharing::unified_producer};
  unanswered(unified, typed_model(), "--share unified-producer");
}
