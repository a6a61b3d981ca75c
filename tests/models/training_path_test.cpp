#include <doctest/doctest.h>

#include "base/error.hpp"
#include "models/whatif/training_model.hpp"

using namespace dsanalyze;

namespace {

/// The path of a training whose workers compute and wait, and whose steps compute.
Path true_path(int workers, double threads) {
  Path path;
  path.workers = {workers, 2, 1, {0.002, 0}, {0.001, 0}};
  path.cores = {2, slice_on(2)};
  path.steps.samples = 16;
  path.steps.seconds.value = 0.032;
  path.steps.threads = threads;
  path.steps.threads_scale = threads > 0.5;
  path.handover = {0.001, 0.0005};
  return path;
}

double rate_with(Path path, int workers, Pace pace = Pace::trains) {
  path.workers.count = workers;
  if (workers == 0) path.handover = {};
  return run(path, 7, pace);
}

RateRecord path_rate(double value) {
  RateRecord record;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {0.99 * value, 1.01 * value};
  return record;
}

RunRecord path_run(const char* name, double value, double cores_used) {
  RunRecord record;
  record.name = name;
  record.samples_per_s = value;
  record.ci95_samples_per_s = {0.99 * value, 1.01 * value};
  record.cores_used = cores_used;
  return record;
}

/// What a profile of that training says.
ProfileResult path_profile(const Path& path) {
  ProfileResult profile;
  profile.command = {"python3", "train.py"};
  profile.loader.emplace();
  profile.loader->workers = path.workers.count;
  profile.loader->prefetch = path.workers.prefetch;
  profile.host.cores = 2;
  profile.host.cores_online = 2;
  profile.host.accelerator_shares_cores = true;
  profile.settings.accelerators = 1;
  const double found = rate_with(path, path.workers.count);
  const double ingestion = path.steps.samples / path.steps.seconds.value;
  profile.prep = path_rate(rate_with(path, path.workers.count, Pace::drains));
  profile.ingestion = path_rate(ingestion);
  profile.runs = {path_run("full", found, 1.5), path_run("cached", found, 1.5), path_run("synthetic", ingestion, path.steps.threads)};
  if (path.workers.count > 0) profile.runs.push_back(path_run("busy", rate_with(path, path.workers.count, Pace::busy), 2));
  profile.waits.emplace();
  profile.waits->step_seconds = path.steps.samples / found;
  for (const int workers : {1, 2, 4}) {
    WorkerPoint point;
    point.workers = workers;
    point.samples_per_s = rate_with(path, workers, Pace::drains);
    point.ci95_samples_per_s = {0.99 * point.samples_per_s, 1.01 * point.samples_per_s};
    point.workers_seconds_per_sample = path.workers.cpu_seconds.value;
    point.main_thread_seconds_per_sample = point.process_seconds_per_sample = path.handover.cpu_seconds / path.steps.samples;
    point.take_over_seconds_per_sample = (path.handover.cpu_seconds + path.handover.other_seconds) / path.steps.samples;
    profile.prep_by_workers.push_back(point);
  }
  return profile;
}

}  // namespace

TEST_CASE("a path that is made of a profile brings what the training of that profile would, changed too") {
  for (const double threads : {0.0, 1.0}) {
    const Path path = true_path(2, threads);
    const ProfileResult profile = path_profile(path);
    const TrainingModel model = training_model(profile);
    CHECK(model.path.unexplained < 0.03);
    const auto predicted = [&](const TrainingChange& change) { return rates_of(model, change); };
    const auto holds = [&](const TrainingChange& change, double truth) {
      const TrainingRates rates = predicted(change);
      CHECK(rates.samples_per_s == doctest::Approx(truth).epsilon(0.04));
      CHECK(rates.ci95.low <= 1.01 * truth);
      CHECK(rates.ci95.high >= 0.99 * truth);
    };
    holds({}, rate_with(path, 2));
    for (const int workers : {1, 3, 4, 8}) holds({.workers = workers}, rate_with(path, workers));
    for (const double cores : {1.0, 4.0}) {
      Path changed = path;
      changed.cores.count = cores;
      holds({.cores = cores}, rate_with(changed, 2));
    }
    for (const double speed : {0.25, 4.0}) {
      Path changed = path;
      changed.steps.speed = speed;
      holds({.speed = speed}, rate_with(changed, 2));
    }
  }
}

TEST_CASE("the bottleneck is the station whose doubling gains most") {
  const auto told = [](const Path& path, const TrainingChange& change) { return rates_of(training_model(path_profile(path)), change); };
  const Path path = true_path(1, 0);
  CHECK(told(path, {}).detail == "prep");
  CHECK_FALSE(told(path, {}).too_close);
  CHECK(told(path, {.speed = 0.1}).detail == "accelerator");
  // Two workers and a training that computes want three of two cores.
  Path crowded = true_path(4, 1);
  crowded.workers.other_seconds.value = 0;
  crowded.steps.seconds.value = 0.016;
  CHECK(told(crowded, {}).bottleneck == "cpu");
  CHECK(told(crowded, {.cores = 16}).detail == "accelerator");
}

TEST_CASE("without workers a profile tells of taking turns, and of workers less surely") {
  const Path path = true_path(0, 0);
  ProfileResult profile = path_profile(path);
  WorkerPoint alone;
  alone.samples_per_s = rate_with(path, 0, Pace::drains);
  alone.ci95_samples_per_s = {0.99 * alone.samples_per_s, 1.01 * alone.samples_per_s};
  alone.process_seconds_per_sample = path.workers.cpu_seconds.value;
  profile.prep_by_workers.insert(profile.prep_by_workers.begin(), alone);
  const TrainingModel model = training_model(profile);
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(rate_with(path, 0)).epsilon(0.02));
  CHECK(rates_of(model, {.workers = 2}).samples_per_s == doctest::Approx(rate_with(path, 2)).epsilon(0.04));
}

TEST_CASE("more processes than are moved one by one are refused with the way out") {
  ProfileResult profile = path_profile(true_path(2, 0));
  CHECK_THROWS_WITH_AS(rates_of(training_model(profile), {.workers = 5000}), doctest::Contains("ask for fewer"), UsageError);
  profile.loader->prefetch = 1'000'000'000;
  CHECK_THROWS_AS(training_model(profile), UsageError);
  profile.loader->prefetch = 2;
  profile.prep_by_workers.back().workers = 1'000'000'000;
  CHECK_THROWS_AS(training_model(profile), UsageError);
}

TEST_CASE("a record of absurd values is answered, or refused, in no time") {
  ProfileResult profile = path_profile(true_path(2, 1));
  profile.host.cores = 1e12;
  profile.runs[2].cores_used = 1e15;
  for (WorkerPoint& point : profile.prep_by_workers) point.workers_seconds_per_sample = 1e6;
  CHECK_THROWS_WITH_AS(training_model(profile), doctest::Contains("1024 threads in a step"), UsageError);
  // Each sample computes for a quarter of an hour: 10^9 slices of a core.
  Path slow = true_path(4, 1);
  slow.workers.cpu_seconds.value = 900;
  CHECK(run(slow, 1) == doctest::Approx(2.0 / 900).epsilon(0.1));
}

TEST_CASE("many workers are moved in coarser parts, and supply what they should") {
  Path path = true_path(256, 0);
  path.cores.count = 128;
  path.steps.seconds.value = 1e-4;
  path.handover = {};
  CHECK(run(path, 1) == doctest::Approx(128 / 0.002).epsilon(0.09));
  path.cores.count = 1024;
  CHECK(run(path, 1) == doctest::Approx(256 / 0.003).epsilon(0.06));
}

TEST_CASE("absurd changes and records of many ranks end, too") {
  const ProfileResult profile = path_profile(true_path(2, 1));
  CHECK(rates_of(training_model(profile), {.speed = 1e-9}).samples_per_s > 0);
  ProfileResult ranks = profile;
  ranks.settings.accelerators = 100'000;
  CHECK_THROWS_AS(training_model(ranks), UsageError);
  ProfileResult slow_hands = profile;
  for (WorkerPoint& point : slow_hands.prep_by_workers) point.main_thread_seconds_per_sample = point.process_seconds_per_sample = 1e6;
  CHECK(rates_of(training_model(slow_hands), {}).samples_per_s > 0);
  ProfileResult twice = profile;
  twice.prep_by_workers.push_back(twice.prep_by_workers.back());
  CHECK(rates_of(training_model(twice), {.workers = 8}).samples_per_s > 0);
  // A limit far below what storage gives.
  Path limited = true_path(4, 0);
  limited.storage = {{{1, 1e9}, {4, 4e9}}, 1, 0.5, 0};
  CHECK(run(limited, 1) == doctest::Approx(2).epsilon(0.2));
}
