#include "validate/validate_training.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "../models/made_training.hpp"
#include "attach/command_paths.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"

using namespace dsanalyze;

namespace {

ProfileResult launched_profile() {
  ProfileResult profile;
  profile.command = {"sh", "train.sh"};
  profile.loader.emplace().file = "/here/train.py";
  profile.launch = LaunchRecord{"/here", {}, 4};
  return profile;
}

WhatIfResult result_of(int changes) {
  WhatIfResult result;
  result.answers.resize(static_cast<std::size_t>(changes) + 1);
  for (int at = 1; at <= changes; ++at) result.answers[static_cast<std::size_t>(at)].change.workers = at;
  return result;
}

HostFacts host_of(int cores) {
  HostFacts host;
  for (int cpu = 0; cpu < cores; ++cpu) host.cpus_allowed.push_back(cpu);
  return host;
}

WhatIfAnswer measured_answer(double error, double own, bool covered, bool verdict = true) {
  WhatIfAnswer answer;
  WhatIfAnswer::Measured measured;
  measured.samples_per_s = 100;
  measured.ci95_samples_per_s = {100 - 100 * own, 100 + 100 * own};
  measured.error = error;
  measured.covered = covered;
  measured.verdict_right = verdict;
  answer.measured = measured;
  return answer;
}

}  // namespace

TEST_CASE("a validation runs every change in turn, three times at most, within three minutes") {
  const ProfileResult profile = launched_profile();
  for (const int changes : {1, 2, 5, 20}) {
    WhatIfResult result = result_of(changes);
    const TrainingValidationPlan plan = plan_training_validation(profile, host_of(4), result, 0);
    CHECK(plan.seconds <= 180.001);
    CHECK(plan.rounds >= 1);
    CHECK(plan.rounds <= 3);
    CHECK(plan.order.front() == 0);
    CHECK(plan.order.size() + plan.left_out == static_cast<std::size_t>(changes) + 1);
    CHECK(plan.measured_seconds >= 7.9);
    for (std::size_t at = plan.order.size(); at < result.answers.size(); ++at)
      CHECK(result.answers[at].not_measured.find("--time-budget") != std::string::npos);
  }
  WhatIfResult longer = result_of(1);
  CHECK(plan_training_validation(profile, host_of(4), longer, 600).seconds == doctest::Approx(600));
}

TEST_CASE("what this machine cannot run of a launched training is said why, and then nothing runs") {
  const ProfileResult profile = launched_profile();
  WhatIfResult result = result_of(0);
  result.answers.emplace_back().change.accelerator_speed = 2;
  result.answers.emplace_back().change.cores = 8;
  result.answers.emplace_back().change.cores = 1.5;
  const TrainingValidationPlan plan = plan_training_validation(profile, host_of(2), result, 0);
  CHECK(plan.order.empty());
  CHECK(result.answers[1].not_measured.find("no other speed") != std::string::npos);
  CHECK(result.answers[2].not_measured == "this process may use 2 cores");
  CHECK(result.answers[3].not_measured == "only whole cores can be run");
  CHECK(conclude_training_validation(result.answers).outcome == "undecided");
}

TEST_CASE("a validation passes, fails, or cannot decide") {
  const auto outcome = [](std::vector<WhatIfAnswer> answers) { return conclude_training_validation(answers).outcome; };
  CHECK(outcome({measured_answer(0.01, 0.02, true), measured_answer(-0.02, 0.02, true)}) == "passed");
  CHECK(outcome({measured_answer(0.01, 0.02, true), measured_answer(0.01, 0.02, true, false)}) == "failed");
  CHECK(outcome({measured_answer(0.01, 0.02, true), measured_answer(0.3, 0.02, false)}) == "failed");
  CHECK(outcome({measured_answer(0.01, 0.02, true), measured_answer(0.3, 0.02, true)}) == "undecided");
  CHECK(outcome({measured_answer(0.01, 0.2, true)}) == "undecided");
  // The median is missed, and the intervals do not hold that.
  CHECK(outcome({measured_answer(0.05, 0.02, false), measured_answer(0.05, 0.02, false)}) == "failed");
  CHECK(outcome({measured_answer(0.05, 0.02, true), measured_answer(0.05, 0.02, true)}) == "undecided");
  // One that is past nothing that is asked of it fails nothing.
  CHECK(outcome({measured_answer(0.01, 0.02, true), measured_answer(0.01, 0.02, true), measured_answer(0.04, 0.02, false),
                 measured_answer(0.12, 0.02, true)}) == "undecided");
}

TEST_CASE("a validation in which no change could be run decides nothing") {
  const std::vector<WhatIfAnswer> answers{measured_answer(0.001, 0.02, true), WhatIfAnswer{}};
  const WhatIfValidation validation = conclude_training_validation(answers);
  CHECK(validation.outcome == "undecided");
  CHECK(validation.reason == "no run with a change gave a rate");
  CHECK(conclude_training_validation({answers.front()}).outcome == "passed");  // nothing was asked beside it
}

TEST_CASE("a machine that has become slower since the profile is told, and another machine decides nothing") {
  const auto at_speed = [](double speed) {
    std::vector<WhatIfAnswer> answers{measured_answer(0, 0.02, true), measured_answer(0.02, 0.02, true)};
    for (WhatIfAnswer& answer : answers) {
      answer.measured->speed = speed;
      answer.measured->error_as_profiled = 1 / speed * (1 + answer.measured->error) - 1;
    }
    return conclude_training_validation(answers);
  };
  CHECK(at_speed(0.87).outcome == "passed");
  CHECK(at_speed(0.87).slowest == 0.87);
  CHECK(at_speed(0.87).worst_error < 0.021);
  CHECK(at_speed(0.87).worst_error_as_profiled == doctest::Approx(1.02 / 0.87 - 1));
  CHECK(at_speed(0.7).outcome == "undecided");
  CHECK(at_speed(0.7).reason.find("70 % of the rate") != std::string::npos);
}

TEST_CASE("a change whose run fails is not run again, and says why; without the training as found there is no validation") {
  ProfileResult profile = launched_profile();
  profile.prep.emplace().samples_per_s = 1000;
  profile.ingestion.emplace().samples_per_s = 2000;
  profile.waits.emplace().step_seconds = 0.1;
  profile.runs.emplace_back().name = "full";
  profile.runs.back().samples_per_s = 900;
  WhatIfResult result = result_of(2);
  TrainingValidationPlan plan;
  plan.rounds = 3;
  plan.seconds = 60;
  plan.measured_seconds = 8;
  int tried = 0;
  TrainingRuns runs;
  runs.folder = [&tried]() -> std::shared_ptr<const std::filesystem::path> {
    ++tried;
    throw Error("no room");
  };
  plan.order = {1, 2};
  validate_training(plan, profile, runs, result, null_events(), {}, system_timing());
  CHECK(tried == 2);
  CHECK(result.answers[1].not_measured == "its run failed: no room");
  CHECK(result.answers[2].not_measured == "its run failed: no room");
  plan.order = {0, 1};
  tried = 0;
  CHECK_THROWS_WITH_AS(validate_training(plan, profile, runs, result, null_events(), {}, system_timing()), "no room", Error);
  CHECK(tried == 1);
  runs.folder = []() -> std::shared_ptr<const std::filesystem::path> { throw Interrupted(); };
  plan.order = {1, 2};
  CHECK_THROWS_AS(validate_training(plan, profile, runs, result, null_events(), {}, system_timing()), Interrupted);
}

TEST_CASE("the machine's speed shows in a training that was profiled as it goes on, and not in one that began cold") {
  TrainingModel model = testing::Made{}.model();
  CHECK(machine_speed(model, 1.1 * model.found) == doctest::Approx(1.1));
  model.storage = TrainingModel::Storage{};
  TrainingModel::Storage& storage = *model.storage;
  storage.curve = {{1, 500}};
  storage.rate = 500;
  storage.bytes_per_sample = 100'000;
  storage.dataset_bytes = 100'000'000;
  storage.page_cache_bytes = 200'000'000;
  CHECK(machine_speed(model, 1.1 * model.found) == doctest::Approx(1.1));  // all was in memory, as it will be
  storage.found_fraction = 0.6;
  CHECK(machine_speed(model, 1.1 * model.found) == 1);
}

TEST_CASE("the rate of repeated runs is known no better than they agree") {
  const RepeatedRate alike = repeated_rate({100, 100, 100}, {{97, 103}, {97, 103}, {97, 103}});
  CHECK(alike.samples_per_s == doctest::Approx(100));
  CHECK(alike.ci95.high == doctest::Approx(100 + 3 / std::sqrt(3.0)));
  const RepeatedRate apart = repeated_rate({90, 110}, {{90, 90}, {110, 110}});
  CHECK(apart.ci95.low < 85);
}

TEST_CASE("steps that wait are held up by prep, and the edge is inconclusive") {
  CHECK(training_verdict(0.4, 0).bottleneck == "cpu");
  CHECK(training_verdict(0.005, 0).bottleneck == "gpu");
  CHECK(training_verdict(0.3, 0.29).bottleneck == "gpu");
  CHECK(training_verdict(0.03, 0).too_close);
  CHECK_FALSE(training_verdict(0.4, 0).too_close);
}

TEST_CASE("a command that is gone, was changed or belongs to another folder is refused before anything runs") {
  std::string pattern = (std::filesystem::temp_directory_path() / "dsanalyze-command-XXXXXX").native();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  const std::filesystem::path folder = pattern;
  const auto refused = [&](const ProfileResult& profile) {
    try {
      check_same_command(profile, folder);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  write_file_atomically(folder / "train.sh", "exit 0\n");
  std::filesystem::create_directories(folder / "data" / "train" / "class");
  write_file_atomically(folder / "data" / "a", "1");
  write_file_atomically(folder / "data" / "train" / "class" / "deep", "1");
  ProfileResult profile = launched_profile();
  profile.command = {"sh", "train.sh", "--data=data"};
  profile.launch = LaunchRecord{folder.native(), command_paths(profile.command, folder), 1};
  CHECK(profile.launch->paths.size() == 2);
  CHECK(check_same_command(profile, folder).empty());

  write_file_atomically(folder / "data" / "a", "other contents");  // of the same name
  REQUIRE(check_same_command(profile, folder).size() == 1);
  profile.launch->paths = command_paths(profile.command, folder);
  write_file_atomically(folder / "data" / "train" / "class" / "deep", "another picture");
  REQUIRE(check_same_command(profile, folder).size() == 1);
  profile.launch->paths = command_paths(profile.command, folder);
  write_file_atomically(folder / "data" / "b", "2");
  const std::vector<Finding> findings = check_same_command(profile, folder);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().code == "data-changed");

  write_file_atomically(folder / "train.sh", "exit 1\n");
  CHECK(refused(profile).find("was changed since the profile") != std::string::npos);
  std::filesystem::remove(folder / "train.sh");
  CHECK(refused(profile).find("is gone") != std::string::npos);
  ProfileResult elsewhere = profile;
  elsewhere.launch->working_directory = "/elsewhere";
  CHECK(refused(elsewhere).find("the profile's command is gone: there is no folder /elsewhere") != std::string::npos);
  elsewhere.launch->working_directory = "/";
  CHECK(refused(elsewhere).find("run dsanalyze there") != std::string::npos);
  ProfileResult without_program = profile;
  without_program.launch->paths.clear();
  without_program.command = {"no-such-program-of-dsanalyze"};
  CHECK(refused(without_program).find("there is no program") != std::string::npos);
  ProfileResult old = profile;
  old.launch.reset();
  CHECK(refused(old).find("profile the command again") != std::string::npos);
  std::filesystem::remove_all(folder);
}
