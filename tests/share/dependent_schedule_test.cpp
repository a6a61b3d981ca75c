#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "base/random.hpp"
#include "dependent_explorer.hpp"

namespace dsanalyze {
namespace {

using namespace testing;

constexpr std::uint64_t every = 5;  ///< of the seeds; DSANALYZE_TEST_SEEDS=5 goes through as many as were tried at first

std::uint64_t times_as_many() {
  const char* const given = std::getenv("DSANALYZE_TEST_SEEDS");
  return given == nullptr ? 1 : std::stoull(given);
}

/// Two to five jobs that differ in everything.
DependentSchedule drawn_schedule(std::uint64_t seed) {
  RandomStream random(mix(seed, 99));
  DependentSchedule schedule;
  schedule.seed = seed;
  const std::uint64_t jobs = 2 + random.below(4);
  for (std::uint64_t i = 0; i < jobs; ++i) {
    ExploredJob job;
    job.batch_size = static_cast<std::uint32_t>(1 + random.below(9));
    job.slots = static_cast<std::uint32_t>(1 + random.below(4));
    job.epochs = 1 + random.below(3);
    if (random.below(3) == 0) {
      const auto from = static_cast<SampleId>(random.below(20));
      for (SampleId sample = from; sample < from + 8; ++sample) job.subset.push_back(sample);
    }
    job.batch_time = static_cast<Nanoseconds>(random.below(3) * random.below(400'000));
    job.comes = static_cast<Nanoseconds>(random.below(2) * random.below(5'000'000));
    schedule.jobs.push_back(std::move(job));
  }
  schedule.store_places = static_cast<std::uint32_t>(random.below(3) * random.below(8));
  schedule.in_flight = static_cast<std::uint32_t>(1 + random.below(4));
  schedule.policy = random.below(2) == 0 ? StagingPolicy::refcnt : StagingPolicy::lru;
  return schedule;
}

void explored(const DependentSchedule& schedule, DependentExplored& all) {
  const DependentExplored found = explore(schedule);
  std::string deaths;
  for (const ExploredDeath& death : schedule.deaths)
    deaths += " job " + std::to_string(death.job) + " after step " + std::to_string(death.after) +
              (death.before ? " before step " + std::to_string(static_cast<int>(*death.before)) : std::string());
  REQUIRE_MESSAGE(found.problem.empty(), "seed ", schedule.seed, ",", deaths, ", frozen at ", schedule.freeze_after.value_or(0), ": ", found.problem);
  all += found;
}

TEST_CASE("whatever the order of a dependent feed's threads, each job gets its epochs, and no place has two uses") {
  DependentExplored all;
  for (std::uint64_t seed = 0; seed < 600 * times_as_many(); seed += every) explored(drawn_schedule(seed), all);
  CHECK(all.prepared < all.drawn);
  for (const DependentStep step :
       {DependentStep::serve, DependentStep::claim_slot, DependentStep::open_batch, DependentStep::draw, DependentStep::prepared, DependentStep::copy,
        DependentStep::copied, DependentStep::finish, DependentStep::retire}) {
    CHECK_MESSAGE(all.taken[static_cast<std::size_t>(step)] > 0, static_cast<int>(step));
  }
  MESSAGE(all.turns, " turns, ", all.drawn, " samples drawn, ", all.prepared, " prepared");
}

TEST_CASE("a job may be gone before any step of a dependent feed's threads, two at once too: the others' epochs are whole") {
  DependentExplored all;
  for (std::uint64_t seed = 10'000; seed < 10'000 + 1200 * times_as_many(); seed += every) {
    DependentSchedule schedule = drawn_schedule(seed);
    RandomStream random(mix(seed, 5));
    // One job lives.
    for (std::uint32_t job = 1; job < schedule.jobs.size(); ++job) {
      if (random.below(3) == 0) continue;
      schedule.deaths.push_back({job, random.below(2) * random.below(120), {}});
      if (random.below(3) > 0) schedule.deaths.back().before = static_cast<DependentStep>(random.below(dependent_steps));
    }
    explored(schedule, all);
  }
  std::string killed;
  for (std::size_t step = 0; step < dependent_steps; ++step) killed += ' ' + std::to_string(all.killed[step]);
  for (const DependentStep step : {DependentStep::serve, DependentStep::claim_slot, DependentStep::open_batch, DependentStep::copy,
                                   DependentStep::copied, DependentStep::finish}) {
    CHECK_MESSAGE(all.killed[static_cast<std::size_t>(step)] > 0, static_cast<int>(step));
  }
  MESSAGE("gone before each step:", killed);
}

TEST_CASE("a dependent feed may be frozen at any turn: what is left comes from a later one, once") {
  DependentExplored all;
  for (std::uint64_t seed = 20'000; seed < 20'000 + 600 * times_as_many(); seed += every) {
    DependentSchedule schedule = drawn_schedule(seed);
    RandomStream random(mix(seed, 6));
    schedule.freeze_after = random.below(3000);
    if (random.below(3) == 0) schedule.deaths.push_back({1, random.below(60), {}});
    explored(schedule, all);
  }
  CHECK(all.resumed > 10);
}

}  // namespace
}  // namespace dsanalyze
