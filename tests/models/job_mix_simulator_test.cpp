#include "models/simulate/job_mix_simulator.hpp"
#include "../base/sanitizers.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "two_jobs.hpp"

using namespace dsanalyze;

namespace {

constexpr double endless = std::numeric_limits<double>::infinity();

DependentMix::Job mix_job(double samples_per_s, std::uint32_t epochs = 10, std::uint32_t batch_size = 8) {
  return {samples_per_s, 0, {}, batch_size, epochs};
}

DependentMix mix_of(std::vector<DependentMix::Job> jobs, double prep, std::uint32_t samples = 4000) {
  DependentMix mix;
  mix.jobs = std::move(jobs);
  mix.samples = samples;
  mix.prep_samples_per_s = prep;
  mix.fetch_samples_per_s = endless;
  return mix;
}

double rate(const DependentMixOutcome::Job& job) { return static_cast<double>(job.drawn) / (job.end_seconds - job.start_seconds); }

}  // namespace

TEST_CASE("a job alone trains at its own speed, or at that of prep or fetch") {
  for (const auto& [prep, fetch, expected] : std::vector<std::array<double, 3>>{{endless, endless, 1000}, {400, 900, 400}, {900, 300, 300}}) {
    DependentMix mix = mix_of({mix_job(1000)}, prep);
    mix.fetch_samples_per_s = fetch;
    const DependentMixOutcome outcome = simulate_dependent_mix(mix);
    CHECK(rate(outcome.jobs[0]) == doctest::Approx(expected).epsilon(0.005));
    CHECK(outcome.jobs[0].drawn == 40'000);
    CHECK(outcome.prepared == 40'000);
    CHECK(outcome.jobs[0].prepared == 40'000);
  }
}

TEST_CASE("jobs in step have each sample prepared once for all, at the speed of prep where that is less") {
  const DependentMixOutcome outcome = simulate_dependent_mix(mix_of({mix_job(1000), mix_job(1000), mix_job(1000)}, 600));
  for (const DependentMixOutcome::Job& job : outcome.jobs) {
    CHECK(rate(job) == doctest::Approx(600).epsilon(0.005));
    CHECK(job.prepared == doctest::Approx(40'000.0 / 3));
  }
  CHECK(outcome.prepared == 40'000);
}

TEST_CASE("jobs of disjoint parts share nothing: each has half of prep, and what the other leaves when that has ended") {
  DependentMix mix = mix_of({mix_job(1000), mix_job(1000, 20)}, 600);
  mix.jobs[0].samples = {{0, 2000}};
  mix.jobs[1].samples = {{2000, 4000}};
  const DependentMixOutcome outcome = simulate_dependent_mix(mix);
  CHECK(outcome.prepared == 60'000);
  CHECK(outcome.jobs[0].end_seconds == doctest::Approx(20'000 / 300.0).epsilon(0.01));
  CHECK(outcome.jobs[1].end_seconds == doctest::Approx(60'000 / 600.0).epsilon(0.01));
}

TEST_CASE(
    "five jobs of speeds 1 to 0.2 that prep keeps up with keep their speeds; 1.87 samples are prepared for each of the fastest, fewer with a store") {
  std::vector<DependentMix::Job> jobs;
  for (const double speed : {1.0, 0.6, 0.45, 0.28, 0.2}) jobs.push_back(mix_job(1000 * speed, static_cast<std::uint32_t>(std::lround(20 * speed))));
  DependentMix mix = mix_of(jobs, 10'000);
  const auto per_fastest = [&mix] {
    const DependentMixOutcome outcome = simulate_dependent_mix(mix);
    for (std::size_t i = 0; i < mix.jobs.size(); ++i) CHECK(rate(outcome.jobs[i]) == doctest::Approx(mix.jobs[i].samples_per_s).epsilon(0.005));
    return static_cast<double>(outcome.jobs[0].prepared_while) / static_cast<double>(outcome.jobs[0].drawn);
  };
  const double without = per_fastest();
  CHECK(without > 1.8);
  CHECK(without < 1.95);
  mix.store_places = mix.samples / 10;
  CHECK(per_fastest() < 1.65);
  mix.store_places = mix.samples / 4;
  const double counted = per_fastest();
  CHECK(counted < 1.42);
  mix.policy = StagingPolicy::lru;
  CHECK(per_fastest() > counted);
}

TEST_CASE("a job that arrives late begins then, and finds nothing prepared for it before") {
  DependentMix mix = mix_of({mix_job(1000), mix_job(1000)}, endless);
  mix.jobs[1].arrival_seconds = 10;
  const DependentMixOutcome outcome = simulate_dependent_mix(mix);
  CHECK(outcome.jobs[0].end_seconds == doctest::Approx(40).epsilon(0.001));
  CHECK(outcome.jobs[1].start_seconds == 10);
  CHECK(outcome.jobs[1].end_seconds == doctest::Approx(50).epsilon(0.001));
  CHECK(outcome.prepared > 40'000);
  CHECK(outcome.prepared < 80'000);
}

TEST_CASE("a scaled mix predicts what the whole one does") {
  DependentMix mix = mix_of({mix_job(1000, 6, 64), mix_job(450, 3, 32), mix_job(300, 2, 64)}, 1300, 60'000);
  mix.jobs[2].samples = {{15'000, 45'000}};
  mix.jobs[1].arrival_seconds = 20;
  mix.store_places = 6000;
  const DependentMixOutcome whole = simulate_dependent_mix(mix);
  const ScaledMix scaled = scaled_mix(mix, 60'000);
  CHECK(draws_of(mix) == 600'000);
  CHECK(scaled.factor == doctest::Approx(10));
  CHECK(draws_of(scaled.mix) == 60'000);
  const DependentMixOutcome small = simulate_dependent_mix(scaled.mix);
  for (std::size_t i = 0; i < mix.jobs.size(); ++i) {
    CHECK(small.jobs[i].end_seconds * scaled.factor == doctest::Approx(whole.jobs[i].end_seconds).epsilon(0.01));
    CHECK(small.jobs[i].prepared * scaled.factor == doctest::Approx(whole.jobs[i].prepared).epsilon(0.02));
  }
  CHECK(scaled_mix(mix, 600'000).factor == 1);
  CHECK(draws_of(scaled_mix(mix, 1).mix) == 500 * 6 + 500 * 3 + 250 * 2);  // not below 500 samples
}

TEST_CASE("what cannot be simulated is refused by name") {
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_dependent_mix(mix_of({}, 1))), doctest::Contains("the jobs of a mix"), std::domain_error);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_dependent_mix(mix_of({mix_job(1)}, 0))), doctest::Contains("P of a mix"), std::domain_error);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_dependent_mix(mix_of({mix_job(0)}, 1))), doctest::Contains("speed of a job"), std::domain_error);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate_dependent_mix(mix_of({mix_job(1)}, 1, 0))), doctest::Contains("samples of a mix"),
                       std::domain_error);
}

TEST_CASE("two jobs at their own speeds share what the closed form says" * doctest::skip(testing::too_often)) {
  struct Pair {
    double speed;
    double arrival;
    SampleRange one;
    SampleRange other;
  };
  const std::vector<Pair> pairs = {
      {0.5, 0, {0, 40'000}, {0, 40'000}},      {0.8, 0, {0, 40'000}, {0, 40'000}},      {0.31, 0, {0, 40'000}, {0, 40'000}},
      {1, 0, {0, 40'000}, {0, 40'000}},        {1, 17, {0, 40'000}, {0, 40'000}},       {0.7, 33, {0, 40'000}, {0, 40'000}},
      {1, 0, {0, 30'000}, {10'000, 40'000}},   {0.6, 0, {0, 25'000}, {10'000, 40'000}}, {0.6, 0, {0, 40'000}, {10'000, 20'000}},
      {0.9, 0, {0, 40'000}, {10'000, 20'000}},
  };
  for (const Pair& pair : pairs) {
    CAPTURE(pair.speed);
    CAPTURE(pair.arrival);
    CAPTURE(pair.other.first);
    std::vector<MixedJob> jobs(2);
    jobs[0] = {1000, 0, {pair.one}, 8, 24};
    jobs[1] = {1000 * pair.speed, pair.arrival, {pair.other}, 8, 12};
    DependentMix mix = mix_of({}, 20'000, 40'000);
    for (const MixedJob& job : jobs) mix.jobs.push_back({job.samples_per_s, job.arrival_seconds, job.samples, job.batch_size, job.epochs});
    const DependentMixOutcome outcome = simulate_dependent_mix(mix);
    const auto shared = static_cast<double>(outcome.drawn - outcome.prepared);
    const TwoJobsShared expected = two_jobs_shared(jobs[0], jobs[1]);
    CHECK(shared == doctest::Approx(expected.shared).epsilon(0.02));
    CHECK(static_cast<double>(outcome.jobs[0].prepared_while) / static_cast<double>(outcome.jobs[0].drawn) ==
          doctest::Approx(expected.prepared_per_fastest).epsilon(0.01));
    const TwoJobsShared turned = two_jobs_shared(jobs[1], jobs[0]);
    if (pair.speed < 1) CHECK(turned.shared == doctest::Approx(expected.shared));
  }
}
