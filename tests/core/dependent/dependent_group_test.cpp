#include "core/dependent/dependent_group.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <set>
#include <vector>

using namespace dsanalyze;

namespace {

/// Jobs of these speeds (samples a step of the clock) that draw and begin epochs anew; how many samples were prepared for each that the first job
/// drew.
double prepared_per_sample(const std::array<double, 5>& speeds, std::uint32_t samples, double stored, StagingPolicy policy) {
  DependentGroup group({samples, 3, static_cast<std::uint32_t>(stored * samples), policy});
  std::array<double, 5> due{};
  for (std::uint32_t job = 0; job < speeds.size(); ++job) group.begin_epoch(job);
  constexpr int epochs = 20;
  std::uint64_t prepared = 0;
  for (std::uint64_t step = 0; step < std::uint64_t{epochs} * samples; ++step) {
    JobSet asking = 0;
    for (std::uint32_t job = 0; job < speeds.size(); ++job) {
      due[job] += speeds[job];
      if (due[job] < 1 - 1e-9) continue;
      due[job] -= 1;
      asking |= set_of(job);
    }
    for (const auto& work : group.draw(asking)) prepared += work.prepare ? 1 : 0;
    for (std::uint32_t job = 0; job < speeds.size(); ++job)
      if (group.sets().remaining(job) == 0) group.begin_epoch(job);
  }
  return static_cast<double>(prepared) / epochs / samples;
}

}  // namespace

TEST_CASE(
    "jobs of speeds 1 to 0.2 have 1.87 samples prepared for each of the fastest, 1.6 and 1.35 with a store of 10 and 25 %, where alone it were "
    "2.53") {
  const std::array<double, 5> speeds{1, 0.6, 0.45, 0.28, 0.2};
  CHECK(prepared_per_sample(speeds, 2000, 0, StagingPolicy::refcnt) < 1.95);
  CHECK(prepared_per_sample(speeds, 2000, 0.1, StagingPolicy::refcnt) < 1.65);
  const double counted = prepared_per_sample(speeds, 2000, 0.25, StagingPolicy::refcnt);
  CHECK(counted < 1.42);
  CHECK(counted < prepared_per_sample(speeds, 2000, 0.25, StagingPolicy::lru));
  // Jobs in step share everything, as in coordinated prep.
  CHECK(prepared_per_sample({1, 1, 1, 1, 1}, 2000, 0, StagingPolicy::refcnt) == 1);
}

TEST_CASE(
    "whichever jobs come, go and start again, each has each sample of its epoch once and no version twice, and the store keeps within its places") {
  for (const StagingPolicy policy : {StagingPolicy::refcnt, StagingPolicy::lru}) {
    constexpr std::uint32_t samples = 300;
    constexpr std::uint32_t places = 40;
    DependentGroup group({samples, 5, places, policy});
    RandomStream random(17);
    std::map<std::uint32_t, std::set<SampleId>> due;                            // by job
    std::map<std::uint32_t, std::set<std::pair<SampleId, std::uint32_t>>> had;  // versions, by job
    std::map<std::uint32_t, std::pair<SampleId, std::uint32_t>> stored;         // versions, by place
    std::uint64_t reused = 0;
    const auto begin = [&](std::uint32_t job) {
      if (random.below(2) == 0) {
        group.begin_epoch(job);
        for (SampleId sample = 0; sample < samples; ++sample) due[job].insert(sample);
      } else {
        const auto from = static_cast<SampleId>(random.below(200));
        for (SampleId sample = from; sample < from + 100; ++sample) due[job].insert(sample);
        group.begin_epoch(job, std::vector<SampleId>(due[job].begin(), due[job].end()));
      }
    };
    for (int round = 0; round < 20'000; ++round) {
      const auto chosen = static_cast<std::uint32_t>(random.below(6));
      if (!due.contains(chosen)) {
        begin(chosen);
      } else if (random.below(400) == 0) {
        group.end(chosen);
        due.erase(chosen);
        had.erase(chosen);
      }
      JobSet asking = 0;
      for (const auto& [job, left] : due)
        if (random.below(3) != 0) asking |= set_of(job);
      JobSet served = 0;
      for (const auto& work : group.draw(asking)) {
        const std::pair version{work.sample, work.generation};
        CHECK((served & work.jobs) == 0);
        served |= work.jobs;
        if (!work.prepare) {
          ++reused;
          REQUIRE(work.place.has_value());
          CHECK(stored.at(*work.place) == version);
        } else if (work.place) {
          CHECK(*work.place < places);
          stored[*work.place] = version;
        }
        for (auto& [job, left] : due) {
          if ((work.jobs & set_of(job)) == 0) continue;
          CHECK(left.erase(work.sample) == 1);
          CHECK(had[job].insert(version).second);
        }
      }
      CHECK(served == asking);
      for (auto& [job, left] : due)
        if (left.empty()) begin(job);
    }
    CHECK(reused > 1000);
  }
}

TEST_CASE("when the store is full, what the fewest jobs still need goes, and what fewer need than all that is there is not kept") {
  PreparedStore store(2, StagingPolicy::refcnt);
  const JobSet three = 0b1110;
  CHECK(store.add(10, 0, 1, three).has_value());
  const auto place = store.add(11, 0, 1, 0b0110);
  REQUIRE(place.has_value());
  CHECK_FALSE(store.add(12, 0, 1, 0b0100).has_value());  // one job: fewer than for the others
  CHECK_FALSE(store.add(12, 0, 1, 0).has_value());
  CHECK(store.add(13, 0, 1, 0b0110) == place);  // two jobs: in the place of 11
  CHECK_FALSE(store.take(11, 0b0010, 0b0100).has_value());
  CHECK(store.take(13, 0b0010, 0b0100)->generation == 0);
  CHECK_FALSE(store.take(13, 0b0010, 0b0100).has_value());  // that job has had it
  CHECK(store.add(14, 3, 1, 0b0110) == place);              // 13 is needed by one job now
  CHECK(store.take(10, 0b1110, 0).has_value());             // all have had it: it goes first
  CHECK(store.add(15, 0, 1, 0b0100).has_value());
  CHECK(store.kept() == 2);
  CHECK_FALSE(store.take(10, 0b10000, 0).has_value());
  CHECK(store.take(14, 0b0010, 0b0100)->generation == 3);
}

TEST_CASE("by last use, what was used longest ago goes") {
  PreparedStore store(2, StagingPolicy::lru);
  store.add(10, 0, 1, 0b1110);
  store.add(11, 0, 1, 0b0010);
  CHECK(store.take(10, 0b0010, 0b1100).has_value());
  store.add(12, 0, 1, 0b0010);
  CHECK_FALSE(store.take(11, 0b0010, 0).has_value());
  CHECK(store.take(10, 0b0100, 0b1000).has_value());
}
