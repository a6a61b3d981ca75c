#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/random.hpp"
#include "staging_explorer.hpp"

namespace dsanalyze {
namespace {

using namespace testing;
using Misfortune = StagingFault::Kind;

/// Schedules that a test draws; DSANALYZE_TEST_SEEDS times as many where somebody has the time.
std::uint64_t seeds(std::uint64_t usual) {
  const char* const times = std::getenv("DSANALYZE_TEST_SEEDS");
  return usual / every_so_many * (times == nullptr ? 1 : std::strtoull(times, nullptr, 10));
}

StagingFacts facts_of(std::uint32_t jobs, std::uint64_t batches, std::uint32_t prefetch = 0) {
  StagingFacts facts;
  facts.jobs = jobs;
  facts.batches_per_epoch = batches;
  facts.prefetch = prefetch;
  return facts;
}

/// A group drawn from the seed: 1 to 5 jobs, short epochs and long, both producers, both boundaries.
StagingSchedule drawn(std::uint64_t seed) {
  RandomStream random(mix(seed, 99));
  StagingSchedule schedule;
  schedule.seed = seed;
  schedule.facts = facts_of(1 + static_cast<std::uint32_t>(random.below(5)), 1 + random.below(12), static_cast<std::uint32_t>(random.below(6)));
  schedule.facts.first_epoch = random.below(3);
  schedule.facts.held = 1 + static_cast<std::uint32_t>(random.below(std::min(schedule.facts.slots(), 4U)));
  schedule.appetite = random.below(3) == 0 ? StagingAppetite::all : StagingAppetite::any;
  schedule.facts.producers = random.below(3) == 0 ? Producers::coordinator : Producers::jobs;
  schedule.facts.boundary = random.below(3) == 0 ? StagingBoundary::synchronised : StagingBoundary::overlapped;
  schedule.epochs = 1 + random.below(4);
  schedule.delivery = seed % 3 == 0 ? 500 : 8;
  if (random.below(3) == 0) schedule.facts.first_batch = random.below(schedule.facts.batches_per_epoch);
  return schedule;
}

/// Runs it; a schedule that breaks a claim is shown with all that it takes to run it again.
StagingRun checked(const StagingSchedule& schedule, StagingCoverage& coverage) {
  StagingRun run = explore(schedule);
  coverage += run.coverage;
  std::string faults;
  for (const StagingFault& fault : schedule.faults) faults += fmt::format(" {}:{}@{}", static_cast<int>(fault.kind), fault.job, fault.at);
  const std::string told = fmt::format("seed {}, {} jobs, {} batches, {} epochs, faults{}: {}", schedule.seed, schedule.facts.jobs,
                                       schedule.facts.batches_per_epoch, schedule.epochs, faults, run.problem);
  CHECK_MESSAGE(run.problem.empty(), told);
  return run;
}

/// Rare steps need all schedules.
void check_covered(const std::array<std::uint64_t, staging_steps>& counts, StagingStep step) {
  if (every_so_many == 1) CHECK_MESSAGE(counts[static_cast<std::size_t>(step)] > 0, staging_step_name(step));
}

std::string table(const std::array<std::uint64_t, staging_steps>& counts) {
  std::string text;
  for (std::size_t i = 0; i < staging_steps; ++i) text += fmt::format(" {} {}", staging_step_name(static_cast<StagingStep>(i)), counts[i]);
  return text;
}

TEST_CASE("without faults every job gets every batch once and in order, each is made once, and no job oversleeps") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    const StagingRun run = checked(drawn(seed), coverage);
    REQUIRE_MESSAGE(run.late == 0, seed);
  }
  for (const StagingStep step : {StagingStep::report, StagingStep::retract, StagingStep::restore, StagingStep::close_slab}) {
    CHECK_MESSAGE(coverage.taken[static_cast<std::size_t>(step)] == 0, staging_step_name(step));  // all of these cost something
  }
}

TEST_CASE("an epoch that opens early is begun when all batches of the one before are published") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(400); ++seed) {
    StagingSchedule schedule = drawn(seed);
    schedule.facts.look_again = 2000;  // the coordinator looks about as often as jobs move
    schedule.facts.boundary = StagingBoundary::overlapped;
    checked(schedule, coverage);
  }
}

TEST_CASE("two jobs hold their claims in every schedule with up to three preemptions") {
  StagingCoverage coverage;
  StagingSchedule schedule;
  schedule.facts = facts_of(2, 2);
  schedule.systematic = true;
  const std::uint64_t steps = checked(schedule, coverage).steps;
  REQUIRE(steps < 1000);
  std::uint64_t schedules = 0;
  for (std::uint64_t first = 0; first < steps; ++first) {
    for (std::uint64_t second = first + 1; second < steps + 20; ++second) {
      for (std::uint64_t third = second; third < steps + 30; third += 2 * every_so_many) {
        schedule.preemptions = {first, second, third};
        ++schedules;
        if (!checked(schedule, coverage).problem.empty()) return;
      }
    }
  }
  MESSAGE(schedules << " schedules of " << steps << " steps and more");
}

/// Places faults anywhere in the schedule that would run without them.
template <typename Draw>
StagingSchedule with_faults(std::uint64_t seed, const Draw& draw) {
  StagingSchedule schedule = drawn(seed);
  const std::uint64_t steps = explore(schedule).steps;
  RandomStream random(mix(seed, 5));
  draw(schedule, random, steps);
  return schedule;
}

std::uint32_t any_job(const StagingSchedule& schedule, RandomStream& random) { return static_cast<std::uint32_t>(random.below(schedule.facts.jobs)); }

constexpr std::array killable{StagingStep::enter,         StagingStep::announce,       StagingStep::look,    StagingStep::wait_for_batch,
                              StagingStep::release,       StagingStep::wake_producers, StagingStep::leave,   StagingStep::choose,
                              StagingStep::wait_for_room, StagingStep::claim,          StagingStep::publish, StagingStep::wake_jobs};

TEST_CASE("a job killed before any step of any schedule with one preemption costs the others nothing") {
  StagingCoverage coverage;
  StagingSchedule schedule;
  schedule.systematic = true;
  for (const std::uint32_t jobs : {2U, 3U}) {
    schedule.facts = facts_of(jobs, 3);
    schedule.preemptions.clear();
    schedule.faults.clear();
    const std::uint64_t steps = checked(schedule, coverage).steps;
    for (std::uint64_t preemption = 0; preemption < steps; ++preemption) {
      for (std::uint64_t at = preemption % every_so_many; at < steps; at += every_so_many) {
        schedule.preemptions = {preemption};
        schedule.faults = {{Misfortune::kill, static_cast<std::uint32_t>((preemption + at) % jobs), at}};
        if (!checked(schedule, coverage).problem.empty()) return;
      }
    }
  }
  MESSAGE("killed before:" << table(coverage.killed));
  for (const StagingStep step : killable) check_covered(coverage.killed, step);
}

TEST_CASE("two jobs of three killed at any two moments cost the third nothing") {
  StagingCoverage coverage;
  StagingSchedule schedule;
  schedule.facts = facts_of(3, 4);
  schedule.systematic = true;
  const std::uint64_t steps = checked(schedule, coverage).steps;
  for (std::uint64_t first = 0; first < steps; ++first) {
    for (std::uint64_t second = first % every_so_many; second < steps; second += every_so_many) {
      schedule.faults = {{Misfortune::kill, static_cast<std::uint32_t>(second % 3), first},
                         {Misfortune::kill, static_cast<std::uint32_t>((second + 1) % 3), second}};
      if (!checked(schedule, coverage).problem.empty()) return;
    }
  }
  MESSAGE("killed before:" << table(coverage.killed));
}

TEST_CASE("jobs killed at any moment, two at once too, are taken over within 40 ms, and the others get on within 100 ms") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(3000); ++seed) {
    const StagingSchedule schedule = with_faults(seed, [](StagingSchedule& drawn_one, RandomStream& random, std::uint64_t steps) {
      drawn_one.delivery = 8;
      for (std::uint64_t i = 0; i <= random.below(3); ++i) {
        const std::uint64_t at = random.below(steps);
        drawn_one.faults.push_back({Misfortune::kill, any_job(drawn_one, random), at, {}});
        if (random.below(2) == 0) drawn_one.faults.push_back({Misfortune::kill, any_job(drawn_one, random), at, {}});
      }
    });
    const StagingRun run = checked(schedule, coverage);
    const std::uint64_t made_without = schedule.epochs * schedule.facts.batches_per_epoch - schedule.facts.first_batch;
    REQUIRE_MESSAGE(run.longest_takeover < 40'000'000, seed);
    // What the dead had published is read on: nothing is made twice but what gave up its slot, or had two makers for a moment after a death.
    REQUIRE_MESSAGE(run.made <= made_without + run.coverage.taken[static_cast<std::size_t>(StagingStep::retract)] + schedule.faults.size(), seed);
    REQUIRE_MESSAGE(run.longest_gap < 100'000'000, seed);
  }
  MESSAGE("taken:" << table(coverage.taken));
  MESSAGE("killed before:" << table(coverage.killed));
  check_covered(coverage.taken, StagingStep::retract);
}

TEST_CASE("jobs killed before each step of a takeover, and of a report, cost the others nothing") {
  StagingCoverage coverage;
  for (const StagingStep step : {StagingStep::retract, StagingStep::report, StagingStep::claim, StagingStep::publish}) {
    for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
      checked(with_faults(seed,
                          [step](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                            const auto first = random.below(3) == 0 ? Misfortune::stop : Misfortune::kill;
                            for (std::uint64_t i = 0; i <= random.below(3); ++i) {
                              schedule.faults.push_back({first, any_job(schedule, random), random.below(steps), {}});
                            }
                            for (std::uint32_t job = 0; job < schedule.facts.jobs; ++job) {
                              if (random.below(2) == 0) schedule.faults.push_back({Misfortune::kill, job, random.below(steps), step});
                            }
                          }),
              coverage);
    }
    check_covered(coverage.killed, step);
  }
  MESSAGE("killed before:" << table(coverage.killed));
}

TEST_CASE("a slot that was taken back while a job began to read it is given to that job again, even if its producer dies over it") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    checked(with_faults(seed,
                        [](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                          // While one job's page says that it needs old batches, they are made again, in slots of newer ones.
                          const std::uint64_t at = random.below(steps);
                          schedule.appetite = StagingAppetite::any;
                          schedule.faults.push_back({Misfortune::rewind_page, any_job(schedule, random), at, {}});
                          for (std::uint32_t job = 0; job < schedule.facts.jobs; ++job) {
                            if (random.below(2) == 0) schedule.faults.push_back({Misfortune::kill, job, at, StagingStep::restore});
                          }
                        }),
            coverage);
  }
  MESSAGE("killed before:" << table(coverage.killed));
  check_covered(coverage.taken, StagingStep::restore);
  check_covered(coverage.killed, StagingStep::restore);
}

TEST_CASE("a job that is stopped is waited for, told of by the others, and never taken over") {
  StagingCoverage coverage;
  std::uint64_t late = 0;
  for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
    const StagingRun run = checked(with_faults(seed,
                                               [](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                                                 schedule.faults.push_back({Misfortune::stop, any_job(schedule, random), random.below(steps)});
                                               }),
                                   coverage);
    late += run.late;
  }
  CHECK(late > 0);
  check_covered(coverage.taken, StagingStep::report);
  check_covered(coverage.taken, StagingStep::broadcast_retry);
}

TEST_CASE("a job that writes garbage over what it shares harms no other job") {
  StagingCoverage coverage;
  for (const Misfortune kind : {Misfortune::garbage_page, Misfortune::rewind_page, Misfortune::lying_page, Misfortune::garbage_slab}) {
    std::uint64_t found = 0;
    for (std::uint64_t seed = 0; seed < seeds(600); ++seed) {
      found += checked(with_faults(seed,
                                   [kind](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                                     schedule.appetite = StagingAppetite::any;  // see the limits in docs/sharing.md
                                     schedule.faults.push_back({kind, any_job(schedule, random), random.below(steps)});
                                     if (random.below(4) == 0)
                                       schedule.faults.push_back({Misfortune::kill, any_job(schedule, random), random.below(steps)});
                                   }),
                       coverage)
                   .garbage;
    }
    CHECK_MESSAGE(found > 0, static_cast<int>(kind));
  }
  check_covered(coverage.taken, StagingStep::close_slab);
}

TEST_CASE("jobs that leave in mid-epoch and jobs that come take nothing from the others, and who comes begins with an epoch") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    checked(with_faults(seed,
                        [](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                          schedule.faults.push_back(
                              {random.below(2) == 0 ? Misfortune::leave : Misfortune::kill, any_job(schedule, random), random.below(steps)});
                          for (std::uint64_t at = 0; at < steps; at += 20) schedule.faults.push_back({Misfortune::join, 0, at});
                        }),
            coverage);
  }
  check_covered(coverage.taken, StagingStep::uncount);
}

TEST_CASE("all misfortunes together leave a group that gets on, and every step of the protocol was taken") {
  StagingCoverage coverage;
  for (std::uint64_t seed = 0; seed < seeds(4000); ++seed) {
    checked(
        with_faults(seed,
                    [](StagingSchedule& schedule, RandomStream& random, std::uint64_t steps) {
                      schedule.appetite = StagingAppetite::any;
                      for (std::uint64_t i = 0; i <= random.below(6); ++i) {
                        const auto kind = static_cast<Misfortune>(random.below(static_cast<std::uint64_t>(Misfortune::join) + 1));
                        schedule.faults.push_back({kind, static_cast<std::uint32_t>(random.below(schedule.facts.jobs + 2)), random.below(2 * steps)});
                      }
                    }),
        coverage);
  }
  MESSAGE("taken:" << table(coverage.taken));
  for (std::size_t i = 0; i < staging_steps; ++i) check_covered(coverage.taken, static_cast<StagingStep>(i));
}

}  // namespace
}  // namespace dsanalyze
