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

TEST_CASE("busy workers hand batches over late where they and the training process have all cores") {
  Made made{.seconds = 0.0033, .cpu = 0.0033, .take = 0.0001, .step = 0.02, .batch = 16, .outside = 0, .cores = 2};
  TrainingModel model = made.model();
  for (TrainingModel::Point& point : model.prep) point.busy_take_over = 0.00034;
  model.take_over = 0.0001;
  // Steps of 33 ms: the workers use 1.6 of two cores, and the batch that lies ready comes 5.4 ms after it was asked for.
  const TrainingRates fast = rates_of(model, {.speed = 20 / 28.0});
  CHECK(16 / fast.ingestion == doctest::Approx(0.028 + 16 * 0.00034).scale(0));
  // Steps of 100 ms: they use half of one.
  CHECK(16 / rates_of(model, {.speed = 0.2}).ingestion == doctest::Approx(0.1 + 16 * 0.0001).scale(0));
  // In between each step comes later as the rate rises, and the rate less high as each step comes later: both hold at the rate that is said.
  const double between = rates_of(model, {.speed = 0.5}).samples_per_s;
  CHECK(16 / between == doctest::Approx(0.04 + delivery_seconds(model, 2, 2, between)).scale(0));
  CHECK(delivery_seconds(model, 2, 2, between) > 16 * 0.00011);
  CHECK(delivery_seconds(model, 2, 2, between) < 16 * 0.00033);
  // Cores that are free let it through at once, and without workers there is nothing to take over.
  CHECK(delivery_seconds(model, 2, 8, 450) == doctest::Approx(16 * 0.0001));
  CHECK(delivery_seconds(model, 0, 2, 450) == 0);
}

TEST_CASE("a changed training reaches the least of its workers, its cores and its steps") {
  RandomStream random(21);
  for (int trial = 0; trial < 2000; ++trial) {
    Made made;
    made.seconds = random.uniform(0.001, 0.05);
    made.cpu = made.seconds * random.uniform(0.01, 1);
    made.take = made.cpu * random.uniform(0.001, 0.05);
    made.step = random.uniform(0.002, 0.2);
    made.outside = made.step * random.uniform(0, 0.5);
    made.batch = std::floor(random.uniform(1, 64));
    made.ranks = 1 + static_cast<int>(random.below(3));
    made.cores = 1 + static_cast<double>(random.below(16));
    made.workers = 1 + static_cast<int>(random.below(8));
    // One worker a rank is never held up by the cores, so that what it takes is seen.
    if (made.ranks * made.cpu / made.seconds >= made.cores * made.cpu / (made.cpu + made.take)) continue;
    const int workers = 1 + static_cast<int>(random.below(12));
    const double cores = 1 + static_cast<double>(random.below(20));
    const double speed = random.uniform(0.5, 3);
    const double expected = std::min(made.prep(workers, cores), made.steps(speed));
    const TrainingRates predicted = rates_of(made.model(), {workers, cores, speed});
    INFO("trial ", trial);
    CHECK(predicted.samples_per_s == doctest::Approx(expected));
    CHECK(predicted.bottleneck == (made.prep(workers, cores) < made.steps(speed) ? "cpu" : "gpu"));
    CHECK(predicted.ci95.low <= expected * 1.000001);
    CHECK(predicted.ci95.high >= expected * 0.999999);
  }
}

TEST_CASE("more cores are never predicted slower, whatever was measured beside the law") {
  // Two workers on two cores were limited by the cores and a tenth faster than the law; one was slower than it, as are all that nothing else limits.
  TrainingModel model = Made{.seconds = 0.002, .cpu = 0.0019, .take = 0.0004, .step = 0.0001, .outside = 0, .cores = 2}.model();
  for (TrainingModel::Point& point : model.prep) point.samples_per_s *= point.workers == 1 ? 1 : 1.1;
  for (const int workers : {1, 2, 3, 4, 6}) {
    double last = 0;
    for (double cores = 2.25; cores <= 9; cores += 0.25) {
      const double rate = rates_of(model, {.workers = workers, .cores = cores}).samples_per_s;
      INFO(workers, " workers, ", cores, " cores");
      CHECK(rate >= last * 0.999);
      last = rate;
    }
  }
}

TEST_CASE("a step waits hardly longer on hardly fewer cores") {
  Made made{.seconds = 0.0033, .cpu = 0.0033, .take = 0.0001, .step = 0.02, .batch = 16, .outside = 0, .cores = 2};
  TrainingModel model = made.model();
  for (TrainingModel::Point& point : model.prep) point.busy_take_over = 0.0001;
  CHECK(delivery_seconds(model, 2, 1.999, 450) == doctest::Approx(delivery_seconds(model, 2, 2, 450)).epsilon(0.01));
  CHECK(delivery_seconds(model, 2, 1, 300) > delivery_seconds(model, 2, 2, 300) + 0.001);
}

TEST_CASE("between two numbers of workers that were measured, P is never beyond both") {
  TrainingModel model = Made{.seconds = 0.02, .cpu = 0.002, .take = 0, .step = 0.0001, .outside = 0}.model();
  model.prep.erase(model.prep.begin() + 1, model.prep.end() - 1);
  REQUIRE(model.prep.back().workers == 8);
  model.prep.back().samples_per_s = 100;  // Something stops them at two workers already.
  double before = 0;
  for (int workers = 1; workers <= 8; ++workers) {
    CAPTURE(workers);
    const double rate = rates_of(model, {.workers = workers}).prep;
    CHECK(rate <= 100.001);
    CHECK(rate >= before);
    before = rate;
  }
}

TEST_CASE("at a number of workers that was measured, P is what was measured there, and between two of them it lies between") {
  TrainingModel model = Made{.step = 0.0001, .outside = 0}.model();
  for (TrainingModel::Point& point : model.prep) point.samples_per_s *= point.workers == 4 ? 0.8 : 1;
  CHECK(rates_of(model, {.workers = 4}).prep == doctest::Approx(320));
  CHECK(rates_of(model, {.workers = 2}).prep == doctest::Approx(200));
  const TrainingRates three = rates_of(model, {.workers = 3});
  CHECK(three.prep > 240);
  CHECK(three.prep < 300);
  CHECK(three.ci95_prep.high - three.ci95_prep.low > 0.1 * three.prep);  // The law was found wrong by a fifth near there.
}

TEST_CASE("a point that a short drain left unsure weighs less than the law through the others") {
  TrainingModel model = Made{.step = 0.0001, .outside = 0}.model();
  model.prep.pop_back();
  TrainingModel::Point& four = model.prep.back();
  four.samples_per_s *= 0.8;
  four.error = 0.25;
  CHECK(rates_of(model, {.workers = 8}).prep > 0.98 * 800);
  CHECK(rates_of(model, {.workers = 8}).prep < 800);
  CHECK(rates_of(model, {.workers = 4}).ci95_prep.high > 400);
}

TEST_CASE("slower accelerators take the process beside them no more CPU time, and a CPU that trains takes more") {
  Made made{.seconds = 0.004, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 1};
  TrainingModel model = made.model();  // P of 250 samples/s, of all of one core.
  model.training_cpu = 0.0001;         // It is 8 % of a step of 20 ms, which sleeps.
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s == doctest::Approx(200));
  // A CPU that trains as long as a step would have no time left for prep.
  model.training_cpu = 0.00125;
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s < 150);
}

TEST_CASE("without workers prep and training take turns") {
  const Made made{.seconds = 0.001, .step = 0.016};
  const TrainingRates predicted = rates_of(made.model(), {.workers = 0});
  CHECK(predicted.samples_per_s == doctest::Approx(1 / (0.001 + 0.001)));
  CHECK(predicted.ci95.low < 0.96 * predicted.samples_per_s);  // It was not measured so.
}

TEST_CASE("where training computes on cores that the workers need, the low end is that of taking turns, and the bottleneck is inconclusive") {
  Made made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.08, .outside = 0, .workers = 2, .cores = 2};
  TrainingModel model = made.model();  // P and G of 200 samples/s each.
  CHECK_FALSE(rates_of(model, {.workers = 1}).too_close);
  model.training_cpu = 0.01;
  const TrainingRates contended = rates_of(model, {.workers = 2});
  CHECK(contended.samples_per_s == doctest::Approx(100));  // 20 ms of CPU time a sample on two cores.
  CHECK(contended.too_close);
  CHECK(contended.detail == "cores");
  CHECK(contended.ci95.low <= 100);
  CHECK(rates_of(model, {.workers = 2, .cores = 8}).samples_per_s > 190);
  model.shares_cores = false;  // A device computes.
  CHECK(rates_of(model, {.workers = 2}).samples_per_s == doctest::Approx(200));
}

TEST_CASE(
    "training that competes with the workers for cores reaches the middle between beside them and in turn with them, or what it reached as found") {
  const double beside = 160;
  const double in_turn = 1 / (1 / 250.0 + 1 / 160.0);
  // Of two cores, prep takes 8 ms a sample and training 3.25 ms, which is half of a step's time: at 160 samples/s the cores are nine tenths used.
  Made made{.seconds = 0.008, .cpu = 0.008, .take = 0, .step = 0.1, .outside = 0, .workers = 2, .cores = 2};
  TrainingModel model = made.model();
  model.training_cpu = 0.00325;
  const double used = beside * (0.008 + 0.00325) / 2;
  const double computes = 0.00325 * 160;  // Only that part of a step takes turns.
  const double lost = (used - 0.6) / 0.4 * computes * (beside - in_turn);
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(beside - lost / 2));
  CHECK(rates_of(model, {}).ci95.low <= beside - lost);
  CHECK(rates_of(model, {}).ci95.high >= beside);
  model.competing_loss = 0;
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(beside));
  model.competing_loss = 0.5;
  model.training_cpu = 0.001;  // A process that feeds a device, on cores that are used up.
  CHECK(rates_of(model, {}).samples_per_s > 0.98 * beside);
}

TEST_CASE("what computes on cores that all together supply as much as the steps take is inconclusive, on either side") {
  // Prep of 4 ms and training of 6 ms a sample make 200 samples/s of two cores; P is 250.
  for (const double steps : {190.0, 194.0, 199.0, 201.0, 206.0, 210.0}) {
    CAPTURE(steps);
    TrainingModel model = Made{.seconds = 0.008, .cpu = 0.004, .take = 0, .step = 16 / steps, .outside = 0, .workers = 2, .cores = 2}.model();
    model.training_cpu = 0.006;
    model.competing_loss = 0;
    CHECK(rates_of(model, {.workers = 8}).too_close);
  }
}

TEST_CASE("the loss of training that competes changes little with what it computes") {
  // Training that takes a twentieth of the cores is no matter; a little more is little matter.
  TrainingModel model = Made{.seconds = 0.008, .cpu = 0.008, .take = 0, .step = 0.064, .outside = 0, .workers = 2, .cores = 2}.model();
  double before = 0;
  for (double cpu = 0.0003; cpu < 0.002; cpu += 0.00002) {
    model.training_cpu = cpu;
    const double rate = rates_of(model, {}).samples_per_s;
    CAPTURE(cpu);
    if (before > 0) CHECK(rate > 0.99 * before);
    before = rate;
  }
}

TEST_CASE("on cores that the workers use up, steps that are hardly faster are inconclusive") {
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.16 / 1.15, .outside = 0, .cores = 1}.model();
  CHECK(rates_of(model, {.workers = 2}).too_close);  // P is 100 samples/s, the steps could take 115.
  model.shares_cores = false;
  CHECK_FALSE(rates_of(model, {.workers = 2}).too_close);
}

TEST_CASE("a training that waits for storage is answered for data in memory, down to what it reached as found") {
  TrainingModel model = Made{}.model();
  model.found = 50;
  model.ci95_found = {48, 52};
  model.waits_for_storage = true;
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

TEST_CASE("of two numbers of workers that are nearly as fast, the one with which steps do not wait is found") {
  // Eight workers supply 800 samples/s, and steps could take 805: 0.6 % more.
  const Made made{.step = 0.018276};
  WhatIfQuestion question;
  question.find = {"workers"};
  const WhatIfFound found = answer(made.model(), question).found.front();
  CHECK(found.value == 9);
  CHECK(found.then.find("compute") != std::string::npos);
}

TEST_CASE("the fewest workers and cores are found with which steps do not wait, and why there are none") {
  const Made made;  // Steps could take 16 / 21.6 ms = 740 samples/s, a worker prepares 100.
  WhatIfQuestion question;
  question.find = {"workers", "cores"};
  const WhatIfResult result = answer(made.model(), question);
  REQUIRE(result.found.size() == 2);
  CHECK(result.found[0].value == 8);
  CHECK_FALSE(has_code(result.findings, "find-alone"));
  WhatIfQuestion with_changes = question;
  with_changes.cores = {{4.0, std::nullopt}};
  CHECK(has_code(answer(made.model(), with_changes).findings, "find-alone"));
  CHECK(answer(made.model(), with_changes).found[0].value == 8);
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
  CHECK(fix->workers == 8);
  CHECK(fix->speedup == doctest::Approx(Made{}.steps(1) / 200));
  CHECK(fix->next == "compute");
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
  CHECK(model.process_cpu == doctest::Approx(0.0004));
  CHECK(model.delivery_seconds == doctest::Approx(0.0003 * 39 / 2));
  CHECK(model.training_cpu == doctest::Approx(0.002));
  CHECK_FALSE(model.prep.back().busy_take_over);
  profile.prep_by_workers.back().busy_take_over_seconds_per_sample = 0.0005;
  CHECK(training_model(profile).prep.back().busy_take_over == doctest::Approx(0.0005));
  // However late batches came in the drains: a step as found lost no more than it took longer than with batches at hand.
  profile.prep_by_workers.back().busy_take_over_seconds_per_sample = 0.1;
  profile.host.cores = 2;
  const TrainingModel bounded = training_model(profile);
  CHECK(bounded.held_up_fraction < 0.1);
  CHECK(rates_of(bounded, {}).ingestion >= 0.999 * std::min(bounded.found, bounded.ingestion));
  CHECK(model.prep.back().error == doctest::Approx(0.025));
  // Without workers, what it costs to take a batch from one is that of the drains that had some.
  ProfileResult alone = profile;
  alone.loader->workers = 0;
  alone.prep_by_workers.insert(alone.prep_by_workers.begin(), {0, 120, {118, 122}, 0.008, 0.008, 0.0});
  const TrainingModel from_none = training_model(alone);
  CHECK(from_none.worker_cpu == doctest::Approx(0.004));
  CHECK(from_none.process_cpu == doctest::Approx(0.0002));
  CHECK(rates_of(from_none, {.workers = 64}).ingestion < from_none.ingestion);
  CHECK(rates_of(from_none, {}).ingestion == doctest::Approx(from_none.ingestion));
  // What both take longer in turn than each for itself stays so, and goes with the turns.
  const double in_turn = 1 / (1 / rates_of(from_none, {}).prep + 1 / from_none.ingestion);
  alone.runs[0].samples_per_s = 0.8 * in_turn;
  alone.waits->step_seconds = 39 / alone.runs[0].samples_per_s;
  const TrainingModel slower = training_model(alone);
  CHECK(rates_of(slower, {}).samples_per_s == doctest::Approx(0.8 * in_turn));
  CHECK(rates_of(slower, {.workers = 4}).samples_per_s == doctest::Approx(rates_of(from_none, {.workers = 4}).samples_per_s));
  // Training that competed with its workers as found goes on as it did.
  ProfileResult competing = profile;
  competing.host.accelerator_shares_cores = true;
  competing.settings.accelerators = 1;
  competing.prep = rate(500);
  competing.ingestion = rate(500);
  competing.runs[1].cores_used = 1;
  competing.waits->outside.seconds_per_step = 0;
  competing.prep_by_workers = {{4, 500, {490, 510}, 0.0, 0.0, 0.002}};
  for (const double found : {260.0, 400.0, 490.0}) {
    competing.runs[0].samples_per_s = found;
    competing.runs[0].ci95_samples_per_s = {0.99 * found, 1.01 * found};
    competing.waits->step_seconds = 39 / found;
    CAPTURE(found);
    CHECK(rates_of(training_model(competing), {}).samples_per_s == doctest::Approx(found).epsilon(0.01));
  }
  // One that uses up its cores beside steps that leave them alone says what a drain does not see.
  ProfileResult busy = competing;
  busy.host.cores = 1;
  busy.prep_by_workers.insert(busy.prep_by_workers.begin(), {1, 400, {392, 408}, 0.0, 0.0, 0.002});
  busy.ingestion = rate(1000);
  busy.runs[1].cores_used = 0.02;
  busy.runs[0].samples_per_s = 450;
  busy.runs[0].ci95_samples_per_s = {445, 455};
  busy.runs[0].cores_used = 0.97;
  busy.runs[0].requested_bytes = Bytes{100} << 20;
  busy.runs[0].storage_bytes = 0;
  RunRecord drained = busy.runs[0];
  drained.name = "prep";
  drained.samples_per_s = 500;
  drained.cores_used = 0.98;
  busy.runs.push_back(drained);
  busy.waits->step_seconds = 39.0 / 450;
  CHECK(training_model(busy).beside_steps == doctest::Approx(0.9).epsilon(0.02));
  CHECK(rates_of(training_model(busy), {}).samples_per_s == doctest::Approx(450));
  busy.waits->outside.seconds_per_step = 0.01;  // A checkpoint is no matter of cores.
  CHECK(training_model(busy).beside_steps == 1);
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
