#include "models/whatif/training_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "answers.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "made_training.hpp"
#include "models/search/search.hpp"
#include "search_shop.hpp"

using namespace dsanalyze;
using testing::has_code;
using testing::Made;

TEST_CASE("a changed training reaches the least of its workers, its cores and its steps, where these are apart") {
  RandomStream random(21);
  int tried = 0;
  for (int trial = 0; trial < 120; ++trial) {
    Made made;
    made.seconds = random.uniform(0.001, 0.05);
    made.cpu = made.seconds * random.uniform(0.01, 1);
    made.take = made.cpu * random.uniform(0.001, 0.05);
    made.step = random.uniform(0.002, 0.2);
    made.outside = made.step * random.uniform(0, 0.5);
    made.batch = std::floor(random.uniform(4, 64));
    made.ranks = 1 + static_cast<int>(random.below(3));
    made.cores = 1 + static_cast<double>(random.below(16));
    made.workers = 1 + static_cast<int>(random.below(8));
    // One worker a rank is never held up by the cores, so that what it takes is seen.
    if (made.ranks * made.cpu / made.seconds >= made.cores * made.cpu / (made.cpu + made.take)) continue;
    const int workers = 1 + static_cast<int>(random.below(12));
    const double cores = 1 + static_cast<double>(random.below(20));
    const double speed = random.uniform(0.5, 3);
    const double prep = made.prep(workers, cores);
    const double steps = made.steps(speed);
    const TrainingReached there = reached(made.model(), {workers, cores, speed});
    INFO("trial ", trial);
    CHECK(there.samples_per_s < 1.45 * std::min(prep, steps));  // On up to five times as many cores.
    const double by_workers = made.ranks * workers / made.seconds;
    const double by_cores = cores / (made.cpu + made.take);
    constexpr double apart = 1.6;
    if (std::max(prep, steps) < apart * std::min(prep, steps) || std::max(by_workers, by_cores) < apart * std::min(by_workers, by_cores)) continue;
    ++tried;
    CHECK(there.samples_per_s > 0.9 * std::min(prep, steps));
    CHECK(there.bottleneck == (prep < steps ? "cpu" : "gpu"));
  }
  CHECK(tried > 20);
}

TEST_CASE("at a number of workers that was measured, P is what was measured there, and between two of them it lies between") {
  TrainingModel model = Made{.step = 0.0001, .outside = 0}.model();
  for (TrainingModel::Point& point : model.prep) point.samples_per_s *= point.workers >= 4 ? 0.8 : 1;
  model.path = path_of(model);
  CHECK(rates_of(model, {.workers = 4}).prep == doctest::Approx(320).epsilon(0.02));
  CHECK(rates_of(model, {.workers = 2}).prep == doctest::Approx(200).epsilon(0.02));
  const TrainingRates three = rates_of(model, {.workers = 3});
  CHECK(three.prep > 240);
  CHECK(three.prep < 300);
}

TEST_CASE("more cores are never predicted slower") {
  for (const int workers : {1, 2, 3, 4, 6}) {
    const TrainingModel model = Made{.seconds = 0.002, .cpu = 0.0019, .take = 0.0004, .step = 0.0001, .outside = 0, .cores = 2}.model();
    double last = 0;
    for (double cores = 2.25; cores <= 9; cores += 0.75) {
      const double rate = reached(model, {.workers = workers, .cores = cores}).samples_per_s;
      INFO(workers, " workers, ", cores, " cores");
      CHECK(rate >= last * 0.98);
      last = rate;
    }
  }
}

TEST_CASE("slower accelerators take the process beside them no more CPU time, and a CPU that trains takes more") {
  const Made made{.seconds = 0.004, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 1};
  TrainingModel model = made.model();  // P of 250 samples/s, of all of one core.
  model.training_cpu = 0.0001;         // It is 8 % of a step of 20 ms, which sleeps.
  model.path = path_of(model);
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s > 190);
  // A CPU that trains as long as a step would have no time left for prep.
  model.training_cpu = 0.00125;
  model.path = path_of(model);
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s < 150);
}

TEST_CASE("without workers prep and training take turns") {
  const Made made{.seconds = 0.001, .step = 0.016};
  const TrainingRates predicted = rates_of(made.model(), {.workers = 0});
  CHECK(predicted.samples_per_s == doctest::Approx(1 / (0.0009 + 0.001)).epsilon(0.03));
  CHECK(predicted.ci95.low < 0.97 * predicted.samples_per_s);  // It was not measured so.
}

TEST_CASE("a training that computes on the cores of its workers gets what all together have") {
  const Made made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.08, .outside = 0, .workers = 2, .cores = 2};
  TrainingModel model = made.model();  // P and G of 200 samples/s each.
  model.training_cpu = 0.005;
  model.path = path_of(model);
  const TrainingRates contended = rates_of(model, {.workers = 2});
  CHECK(contended.samples_per_s == doctest::Approx(2 / 0.015).epsilon(0.05));  // 15 ms of CPU time a sample on two cores
  CHECK(contended.bottleneck == "cpu");
  CHECK(rates_of(model, {.workers = 2, .cores = 8}).samples_per_s > 170);
  model.shares_cores = false;  // A device computes.
  model.path = path_of(model);
  CHECK(rates_of(model, {.workers = 2}).samples_per_s > 170);
}

TEST_CASE("which is the bottleneck is inconclusive where prep and steps are as fast") {
  const TrainingModel model = Made{.seconds = 0.01, .cpu = 0.001, .take = 0, .step = 0.04, .outside = 0, .workers = 4}.model();
  CHECK(rates_of(model, {.workers = 4}).too_close);
  CHECK_FALSE(rates_of(model, {.workers = 1}).too_close);
  CHECK_FALSE(rates_of(model, {.workers = 8}).too_close);
}

TEST_CASE("a worker whose library computes in threads takes their cores") {
  // 10 ms a sample, in which four threads compute 8 ms each.
  Made made{.seconds = 0.01, .cpu = 0.032, .take = 0, .step = 0.001, .outside = 0, .workers = 1, .cores = 4};
  TrainingModel model = made.model();
  model.prep = {{1, 100, 0.01, 0.032}};
  model.path = path_of(model);
  CHECK(model.path.found.workers.threads == 4);
  CHECK(rates_of(model, {.workers = 1}).prep == doctest::Approx(100).epsilon(0.03));
  CHECK(rates_of(model, {.workers = 2}).prep < 126);
  CHECK(rates_of(model, {.workers = 2, .cores = 8}).prep == doctest::Approx(200).epsilon(0.03));
}

TEST_CASE("a training that waits for storage is answered for data in memory, down to what it reached as found") {
  TrainingModel model = Made{}.model();
  model.found = 50;
  model.ci95_found = {48, 52};
  model.waits_for_storage = true;
  model.path = path_of(model);
  WhatIfQuestion question;
  question.workers = {8};
  question.accelerator_speeds = {2};
  const WhatIfResult result = answer(model, question);
  CHECK(has_code(result.findings, "storage-not-measured"));
  for (const WhatIfAnswer& each : result.answers) {
    CHECK(each.too_close);
    CHECK(each.ci95_samples_per_s.low <= 48);
    if (each.change.accelerator_speed) CHECK(each.bottleneck == "io");
  }
}

TEST_CASE("the answers come best first, and their speedups are over the unchanged training, however it was disturbed") {
  WhatIfQuestion question;
  question.workers = {1, 8, 4};
  question.cores = {{1.0, std::nullopt}};
  TrainingModel model = Made{}.model();
  model.found *= 0.7;  // Other programs took its cores.
  const WhatIfResult result = answer(model, question);
  REQUIRE(result.answers.size() == 5);
  CHECK(result.answers[0].change == WhatIfChange{});
  CHECK(result.answers[0].speedup == doctest::Approx(1));
  for (std::size_t i = 2; i < result.answers.size(); ++i) CHECK(result.answers[i].samples_per_s <= result.answers[i - 1].samples_per_s);
  CHECK(result.answers[1].speedup == doctest::Approx(result.answers[1].samples_per_s / result.answers[0].samples_per_s));
  question.combine = WhatIfQuestion::Combine::every_combination;
  CHECK(answer(model, question).answers.size() == 8);
  const std::string json = to_json(result);
  CHECK(to_json(whatif_from_json(json, "test")) == json);
}

TEST_CASE("the fewest workers and cores are found with which steps do not wait, and why there are none") {
  const Made made;  // Steps could take 16 / 21.6 ms = 740 samples/s, a worker prepares 100.
  WhatIfQuestion question;
  question.find = {"workers", "cores"};
  const WhatIfResult result = answer(made.model(), question);
  REQUIRE(result.found.size() == 2);
  REQUIRE(result.found[0].value);
  CHECK(*result.found[0].value >= 8);
  CHECK(*result.found[0].value <= 10);
  CHECK_FALSE(has_code(result.findings, "find-alone"));
  WhatIfQuestion with_changes = question;
  with_changes.cores = {{4.0, std::nullopt}};
  CHECK(has_code(answer(made.model(), with_changes).findings, "find-alone"));
  CHECK(answer(made.model(), with_changes).found[0].value == result.found[0].value);
  CHECK_FALSE(result.found[1].value);  // Two workers do not keep up on any number of cores.
  CHECK(result.found[1].then.find("--find workers") != std::string::npos);
  Made slow;
  slow.cpu = slow.seconds;
  slow.cores = 2;
  const WhatIfResult limited = answer(slow.model(), question);
  CHECK_FALSE(limited.found[0].value);
  CHECK(limited.found[0].then.find("the cores are the limit") != std::string::npos);
  CHECK(limited.found[1].then.find("--all --workers LIST --cores LIST") != std::string::npos);  // Neither alone is enough.
}

TEST_CASE("the fix is the fewest workers that give nearly all, and there is none where nothing is surely gained") {
  const auto fix = fix_of(Made{}.model());
  REQUIRE(fix);
  CHECK(fix->workers >= 7);
  CHECK(fix->workers <= 9);
  CHECK(fix->speedup == doctest::Approx(Made{}.steps(1) / 200).epsilon(0.04));
  CHECK(fix->next.find("compute") != std::string::npos);
  TrainingModel limited = Made{}.model();
  limited.most_workers = 4;  // a drain with more failed
  CHECK(fix_of(limited)->workers == 4);
  limited.most_workers = 2;  // as it has: each of them delivers all samples
  CHECK_FALSE(fix_of(limited));
  Made enough;
  enough.workers = 8;
  CHECK_FALSE(fix_of(enough.model()));
  TrainingModel unsure = Made{}.model();
  unsure.ci95_found = {0, 2 * unsure.found};
  unsure.ci95_found.high = 10'000;
  CHECK_FALSE(fix_of(unsure));
}

TEST_CASE("what a profile of a launched training cannot answer is refused with the reason") {
  const TrainingModel in_memory = Made{}.model();
  const auto refused = [](const TrainingModel& model, const WhatIfQuestion& question) {
    try {
      answer(model, question);
      return std::string();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
  };
  WhatIfQuestion question;
  question.cache_sizes = {{ByteAmount::Kind::fraction, 0, 0.5}};
  CHECK(refused(in_memory, question).find("--cache-size: what storage [S]") == 0);
  question = {};
  question.jobs = {2};
  CHECK(refused(in_memory, question).find("--jobs") == 0);
  question = {};
  question.find = {"cache"};
  CHECK(refused(in_memory, question).find("--find cache") == 0);
  TrainingModel old = in_memory;
  old.worker_cpu.reset();
  question = {};
  question.cores = {{1.0, std::nullopt}};
  CHECK(refused(old, question).find("profile the command again") != std::string::npos);
}

TEST_CASE("the model is read from the record of a launched training") {
  ProfileResult profile;
  CHECK_THROWS_AS(training_model(profile), UsageError);
  profile.command = {"python3", "train.py"};
  profile.loader.emplace().workers = 4;
  CHECK_THROWS_WITH_AS(training_model(profile), doctest::Contains("has no P"), UsageError);
  const auto rate = [](double value) {
    RateRecord record;
    record.samples_per_s = value;
    record.ci95_samples_per_s = {0.98 * value, 1.02 * value};
    return record;
  };
  profile.prep = rate(400);
  profile.ingestion = rate(1000);
  profile.settings.accelerators = 2;
  profile.host.cores = 16;
  RunRecord full;
  full.name = "full";
  full.samples_per_s = 390;
  full.ci95_samples_per_s = {385, 395};
  full.epoch_seconds = 10;
  RunRecord synthetic = full;
  synthetic.name = "synthetic";
  synthetic.cores_used = 2;
  profile.runs = {full, synthetic};
  WaitsRecord waits;
  waits.step_seconds = 0.1;
  waits.outside.seconds_per_step = 0.005;
  profile.waits = waits;
  profile.prep_by_workers = {{1, 100, {98, 102}, 0.0001, 0.0002, 0.004}, {4, 400, {390, 410}, 0.0003, 0.0004, 0.005}};
  const TrainingModel model = training_model(profile);
  CHECK(model.ranks == 2);
  CHECK(model.step_samples == doctest::Approx(39));
  CHECK(model.worker_cpu == doctest::Approx(0.004));
  CHECK(model.thread_cpu == doctest::Approx(0.0003));
  CHECK(model.training_cpu == doctest::Approx(0.002));
  CHECK(model.prep.back().cpu_seconds == doctest::Approx(0.005));
  CHECK(model.prep.back().error == doctest::Approx(0.025));
  // Without workers, what it costs to take a batch from one is that of the drains that had some.
  ProfileResult alone = profile;
  alone.loader->workers = 0;
  alone.prep_by_workers.insert(alone.prep_by_workers.begin(), {0, 120, {118, 122}, 0.008, 0.008, 0.0});
  const TrainingModel from_none = training_model(alone);
  CHECK(from_none.worker_cpu == doctest::Approx(0.004));
  CHECK(from_none.thread_cpu == doctest::Approx(0.0001));
  CHECK(rates_of(from_none, {.workers = 64}).ingestion <= from_none.ingestion);
  CHECK(rates_of(from_none, {}).ingestion == doctest::Approx(from_none.ingestion));
  // What both take longer in turn than each for itself stays so, and goes with the turns.
  const double in_turn = 1 / (1 / rates_of(from_none, {}).prep + 1 / from_none.ingestion);
  alone.runs[0].samples_per_s = 0.8 * in_turn;
  alone.waits->step_seconds = 39 / alone.runs[0].samples_per_s;
  CHECK(rates_of(training_model(alone), {}).samples_per_s == doctest::Approx(0.8 * in_turn).epsilon(0.02));
  ProfileResult torn = profile;
  torn.waits->step_seconds = 0;
  CHECK_THROWS_WITH_AS(training_model(torn), doctest::Contains("/waits/step_seconds"), UsageError);
  torn = profile;
  torn.storage = rate(100);
  torn.reads.emplace().dataset_bytes = Bytes{1} << 30;
  torn.reads->page_cache_bytes = Bytes{1} << 30;
  torn.reads->bytes_per_sample = 1e5;
  torn.storage_by_request = {{1e5, 2, 1e7}, {1e5, 4, 0}};
  CHECK_THROWS_WITH_AS(training_model(torn), doctest::Contains("/curves/S_by_request/1"), UsageError);
  CHECK(model.epoch_samples == doctest::Approx(3900));
  CHECK_FALSE(model.waits_for_storage);
  profile.bottleneck = BottleneckRecord{"io", "storage", true, "", "cpu"};
  CHECK(training_model(profile).waits_for_storage);
}
