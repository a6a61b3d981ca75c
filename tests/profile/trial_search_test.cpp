#include "profile/jobs/trial_search.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "profile/jobs/trial_run.hpp"

namespace dsanalyze {
namespace {

using Kind = TrialSearch::Decision::Kind;

ProfileSettings search_of(int trials, int jobs, std::optional<int> stop_at, int epochs) {
  ProfileSettings settings;
  settings.trials = trials;
  settings.jobs = jobs;
  settings.stop_at_epochs = stop_at;
  settings.epochs = epochs;
  return settings;
}

TrialSearch begun(const ProfileSettings& settings) {
  TrialSearch search(settings);
  for (int job = 0; job < settings.jobs; ++job) CHECK(search.begin(job) == job);
  return search;
}

TrialSearch::Standing with_loss(int job, double loss) { return {job, {0, 2, 100, loss}}; }

TEST_CASE("the worse half gives way to trials that wait, then to none, and the last trains on until it has all its epochs") {
  TrialSearch search = begun(search_of(6, 4, 1, 3));
  const std::vector<TrialSearch::Standing> first{with_loss(0, 4), with_loss(1, 1), with_loss(2, 3), with_loss(3, 2)};
  auto decisions = search.decide(first);
  REQUIRE(decisions.size() == 4);
  CHECK(decisions[0].kind == Kind::next);
  CHECK(decisions[0].trial == 4);  // the worst gives way first
  CHECK(decisions[1].kind == Kind::go);
  CHECK(decisions[2].kind == Kind::next);
  CHECK(decisions[2].trial == 5);
  CHECK(decisions[3].kind == Kind::go);

  decisions = search.decide(first);  // trials 4 and 5 are the worse ones now, and none waits
  CHECK(decisions[0].kind == Kind::stop);
  CHECK(decisions[2].kind == Kind::stop);
  decisions = search.decide(std::vector{with_loss(1, 1), with_loss(3, 2)});
  CHECK(decisions[0].kind == Kind::stop);  // it has its three epochs
  CHECK(decisions[1].kind == Kind::stop);  // so has this one

  const auto records = search.records();
  REQUIRE(records.size() == 6);
  std::vector<JobEnd> ends;
  std::vector<std::uint64_t> epochs;
  for (const SearchTrialRecord& record : records) {
    ends.push_back(record.end);
    epochs.push_back(record.epochs);
    CHECK(record.judged_by == "loss");
    CHECK(record.seconds == doctest::Approx(2.0 * static_cast<double>(record.epochs)));
  }
  CHECK(ends == std::vector{JobEnd::stopped, JobEnd::finished, JobEnd::stopped, JobEnd::finished, JobEnd::stopped, JobEnd::stopped});
  CHECK(epochs == std::vector<std::uint64_t>{1, 3, 1, 3, 1, 1});
  CHECK(records[4].job == 0);
  CHECK(records[5].job == 2);
  CHECK(records[1].value == 1);
}

TEST_CASE("trials are judged every so many epochs, and all train on in between") {
  TrialSearch search = begun(search_of(4, 2, 2, 9));
  const std::vector<TrialSearch::Standing> both{with_loss(0, 2), with_loss(1, 1)};
  for (int round = 0; round < 2; ++round) {
    auto decisions = search.decide(both);
    CHECK(decisions[0].kind == Kind::go);
    CHECK(decisions[1].kind == Kind::go);
    decisions = search.decide(both);
    CHECK(decisions[0].kind == Kind::next);
    CHECK(decisions[0].trial == 2 + round);
    CHECK(decisions[1].kind == Kind::go);
  }
}

TEST_CASE("without rounds each trial trains all its epochs") {
  TrialSearch search = begun(search_of(3, 2, std::nullopt, 2));
  const std::vector<TrialSearch::Standing> both{with_loss(0, 2), with_loss(1, 1)};
  for (const auto& decision : search.decide(both)) CHECK(decision.kind == Kind::go);
  const auto decisions = search.decide(both);
  CHECK(decisions[0].kind == Kind::next);
  CHECK(decisions[0].trial == 2);
  CHECK(decisions[1].kind == Kind::stop);
  CHECK(search.decide(std::vector{with_loss(0, 3)})[0].kind == Kind::go);
  CHECK(search.decide(std::vector{with_loss(0, 3)})[0].kind == Kind::stop);
  CHECK(search.records()[2].epochs == 2);
}

TEST_CASE("a job that died takes its trial with it; where nothing learns the slower give way") {
  TrialSearch search = begun(search_of(5, 4, 1, 9));
  const std::vector<TrialSearch::Standing> left{{0, {0, 1, 300, {}}}, {2, {0, 1, 200, {}}}, {3, {0, 1, 100, {}}}};
  const auto decisions = search.decide(left);
  CHECK(decisions[0].kind == Kind::go);
  CHECK(decisions[1].kind == Kind::go);  // half of three is one
  CHECK(decisions[2].kind == Kind::next);
  const auto records = search.records();
  CHECK(records[1].end == JobEnd::died);
  CHECK(records[1].epochs == 0);
  CHECK(records[0].judged_by == "samples_per_s");
  CHECK(records[0].value == 300);
}

TEST_CASE("a trial's configuration is drawn from the seed and its number") {
  std::set<double> rates;
  for (int trial = 0; trial < 200; ++trial) {
    const TrialSetup setup = trial_setup(7, trial);
    CHECK(setup.learning_rate >= 0.001);
    CHECK(setup.learning_rate <= 0.02);
    CHECK(setup.momentum >= 0.5);
    CHECK(setup.momentum <= 0.9);
    CHECK(trial_setup(7, trial).learning_rate == setup.learning_rate);
    rates.insert(setup.learning_rate);
  }
  CHECK(rates.size() == 200);
  CHECK(trial_setup(8, 0).learning_rate != trial_setup(7, 0).learning_rate);
}

TEST_CASE("threads that meet hear what was decided of all of them, whichever comes last, and do not wait for one that goes") {
  TrialMeeting meeting(search_of(6, 3, 1, 4));
  const std::atomic<bool> stop{false};
  std::array<int, 3> epochs{};
  {
    std::vector<std::jthread> jobs;
    for (int job = 0; job < 3; ++job) {
      jobs.emplace_back([&, job] {
        CHECK(meeting.first(job) == job);
        if (job == 2) return meeting.leave(job);  // it has failed
        for (bool goes_on = true; goes_on;) {
          ++epochs.at(static_cast<std::size_t>(job));
          goes_on = meeting.attend(with_loss(job, job), stop).kind != Kind::stop;
        }
        meeting.leave(job);
      });
    }
  }
  // Job 1 is the worse each time: it tries trials 1, 3, 4 and 5, an epoch each, as job 0 trains its four with trial 0.
  CHECK(epochs[0] == 4);
  CHECK(epochs[1] == 4);
  const auto records = meeting.records();
  REQUIRE(records.size() == 6);
  CHECK(records[0].epochs == 4);
  CHECK(records[2].end == JobEnd::died);
  CHECK(records[5].trial == 5);
}

TEST_CASE("a meeting that is stopped keeps no thread") {
  TrialMeeting meeting(search_of(4, 2, 1, 4));
  const std::atomic<bool> stop{true};
  CHECK(meeting.attend(with_loss(0, 1), stop).kind == Kind::go);
}

}  // namespace
}  // namespace dsanalyze
