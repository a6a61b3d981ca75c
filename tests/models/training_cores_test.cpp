#include "models/whatif/training_cores.hpp"

#include <doctest/doctest.h>

#include "answers.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using testing::has_code;
using testing::Made;

TEST_CASE("where the cores limit prep, the training as found says what taking batches costs that a drain does not see") {
  const Made made{.seconds = 0.004, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 2};
  const auto learnt = [](TrainingModel model, double found) {
    model.found = found;
    model.ci95_found = {0.98 * found, 1.02 * found};
    learn_from_found(model);
    return model;
  };
  const TrainingModel by_law = made.model();  // P of 500 samples/s, steps of 800.
  REQUIRE(rates_of(by_law, {}).samples_per_s == doctest::Approx(500));
  const TrainingModel model = learnt(by_law, 460);
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(460));
  CHECK(rates_of(model, {}).ci95.low < 460 * 0.98);
  CHECK(rates_of(model, {.workers = 8}).samples_per_s == doctest::Approx(460));
  CHECK(rates_of(model, {.cores = 1}).samples_per_s == doctest::Approx(230));
  CHECK(rates_of(model, {.workers = 1}).samples_per_s == doctest::Approx(250));  // Its core is its own.
  CHECK(rates_of(model, {.workers = 4, .cores = 3}).samples_per_s == doctest::Approx(690));
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s == doctest::Approx(200));
  CHECK(rates_of(learnt(by_law, 520), {}).samples_per_s == doctest::Approx(520));
  CHECK(rates_of(learnt(by_law, 100), {}).samples_per_s == doctest::Approx(400));  // That is no correction.
  CHECK(has_code(answer(model, {}).findings, "prep-beside-steps"));
  CHECK_FALSE(has_code(answer(by_law, {}).findings, "prep-beside-steps"));
  // What fewer cores say is told from this.
  TrainingModel both = model;
  learn_from_fewer_cores(both, {1, 207, {205, 209}});
  REQUIRE(both.fewer_cores);
  CHECK(both.fewer_cores->prep_factor == doctest::Approx(0.9));
  CHECK(rates_of(both, {.cores = 1}).samples_per_s == doctest::Approx(207));

  // Pauses between passes are in what was found, and not in P.
  TrainingModel pausing = by_law;
  pausing.pause_seconds = 16 * (1.0 / 400 - 1.0 / 460);
  CHECK(learnt(pausing, 400).beside_steps == doctest::Approx(460.0 / 500));
  CHECK(rates_of(learnt(pausing, 400), {}).samples_per_s == doctest::Approx(400));
}

TEST_CASE("a training as found that something else limits, or disturbs, says nothing of prep") {
  const auto factor = [](const Made& made, auto&& change) {
    TrainingModel model = made.model();
    model.found *= 0.9;
    model.ci95_found = {0.99 * model.found, 1.01 * model.found};
    change(model);
    learn_from_found(model);
    return model.beside_steps;
  };
  const Made made{.seconds = 0.004, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 2};
  const auto nothing = [](TrainingModel& /*as it is*/) {};
  CHECK(factor(made, nothing) == doctest::Approx(0.9));
  CHECK(factor(made, [](TrainingModel& model) { model.waits_for_storage = true; }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.crowded = true; }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.disturbed = true; }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.worker_cpu.reset(); }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.workers = 0; }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.found = 0; }) == 1);
  CHECK(factor(made, [](TrainingModel& model) { model.pause_seconds = 1; }) == 1);
  Made slow = made;
  slow.step = 0.04;  // Steps limit it,
  CHECK(factor(slow, nothing) == 1);
  slow.step = 0.031;  // or both do,
  CHECK(factor(slow, nothing) == 1);
  Made waiting = made;
  waiting.cpu = 0.001;
  waiting.workers = 1;  // or the number of workers.
  CHECK(factor(waiting, nothing) == 1);
}

TEST_CASE("what a worker that wakes takes of a step on fewer cores is what the profile measured there") {
  // A worker's batch takes 8 ms of a core, of steps of 40 ms.
  const Made made{.seconds = 0.0005, .cpu = 0.0005, .take = 0, .step = 0.04, .outside = 0, .cores = 2};
  const auto model_with_takes = [&made] {
    TrainingModel model = made.model();
    for (TrainingModel::Point& point : model.prep) point.busy_take_over = 0;
    return model;
  };
  const TrainingModel unmeasured = model_with_takes();
  const TrainingRates by_law = rates_of(unmeasured, {.cores = 1});
  REQUIRE(by_law.ingestion < by_law.prep);
  REQUIRE(by_law.samples_per_s < 0.99 * made.steps(1));
  for (const double taken : {0.2, 0.5, 1.0, 1.4}) {
    CAPTURE(taken);
    const double lost = taken * (16 / by_law.samples_per_s - 0.04);
    TrainingModel model = model_with_takes();
    learn_from_fewer_cores(model, {1, 16 / (0.04 + lost), {16 / (0.041 + lost), 16 / (0.039 + lost)}});
    CHECK(16 / rates_of(model, {.cores = 1}).samples_per_s == doctest::Approx(0.04 + lost).epsilon(0.002));
    CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(rates_of(unmeasured, {}).samples_per_s));
    // Another step loses as much, as long as workers are as busy.
    CHECK(16 / rates_of(model, {.cores = 1, .speed = 0.9}).samples_per_s > 0.04 / 0.9 + 0.8 * lost);
    CHECK(16 / rates_of(model, {.cores = 1, .speed = 0.9}).samples_per_s < 0.04 / 0.9 + 1.01 * lost);
  }
  TrainingModel nothing_lost = model_with_takes();
  learn_from_fewer_cores(nothing_lost, {1, 16 / 0.035, {}});
  CHECK(rates_of(nothing_lost, {.cores = 1}).samples_per_s == doctest::Approx(made.steps(1)));
}

TEST_CASE("a run that says nothing of what workers take of a step leaves what is known") {
  // On two of four cores workers that use half a core take nothing of a step.
  const Made made{.seconds = 0.0005, .cpu = 0.0005, .take = 0, .step = 0.04, .outside = 0, .cores = 4};
  TrainingModel unmeasured = made.model();
  for (TrainingModel::Point& point : unmeasured.prep) point.busy_take_over = 0;
  REQUIRE(rates_of(unmeasured, {.cores = 2}).samples_per_s == doctest::Approx(400));
  for (const double measured : {395.0, 405.0}) {
    TrainingModel model = unmeasured;
    learn_from_fewer_cores(model, {2, measured, {measured - 1, measured + 1}});
    CHECK(rates_of(model, {.cores = 1}).samples_per_s == rates_of(unmeasured, {.cores = 1}).samples_per_s);
  }
  // Nor does one that is too uncertain.
  TrainingModel model = unmeasured;
  learn_from_fewer_cores(model, {1, 396, {340, 450}});
  CHECK_FALSE(model.fewer_cores);
}

TEST_CASE("of data that lay in memory while fewer cores were tried, no miss is expected then") {
  const Made made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.002, .outside = 0, .workers = 8, .cores = 8};
  TrainingModel model = made.model();
  TrainingModel::Storage storage;
  storage.curve = {{1, 10}, {8, 10}};
  storage.rate = 10;
  storage.bytes_per_sample = 1e5;
  storage.dataset_bytes = 1'000'000'000;
  storage.page_cache_bytes = 100'000'000;
  model.storage = storage;
  learn_from_fewer_cores(model, {4, 390, {380, 400}});
  REQUIRE(model.fewer_cores);
  CHECK(model.fewer_cores->prep_factor == doctest::Approx(390.0 / 400));
}

TEST_CASE("where prep is what fewer cores make slower, their own measurement corrects it, the more the fewer they are") {
  const Made made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.002, .outside = 0, .workers = 8, .cores = 8};
  TrainingModel model = made.model();
  const double by_law = rates_of(model, {.cores = 4}).samples_per_s;
  CHECK(by_law == doctest::Approx(400));
  learn_from_fewer_cores(model, {4, 0.9 * by_law, {0.88 * by_law, 0.92 * by_law}});
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(800));
  CHECK(rates_of(model, {.cores = 4}).samples_per_s == doctest::Approx(0.9 * by_law));
  CHECK(rates_of(model, {.cores = 2}).samples_per_s == doctest::Approx(0.9 * by_law / 2));
  CHECK(rates_of(model, {.cores = 6}).samples_per_s < 0.99 * 600);
  CHECK(rates_of(model, {.cores = 6}).samples_per_s > 0.95 * 600);
  CHECK(rates_of(model, {.workers = 2, .cores = 4}).samples_per_s == doctest::Approx(200));  // They have a core each.
  // What is no measurement of this law corrects nothing, and what is far off is no correction.
  const auto learnt = [&made](const FewerCoresRecord& record, auto&& change) {
    TrainingModel other = made.model();
    change(other);
    learn_from_fewer_cores(other, record);
    return other.fewer_cores.has_value();
  };
  CHECK(learnt({4, 300, {}}, [](TrainingModel& /*as it is*/) {}));
  CHECK_FALSE(learnt({8, 300, {}}, [](TrainingModel& /*as it is*/) {}));
  CHECK_FALSE(learnt({0, 300, {}}, [](TrainingModel& /*as it is*/) {}));
  CHECK_FALSE(learnt({4, 0, {}}, [](TrainingModel& /*as it is*/) {}));
  CHECK_FALSE(learnt({4, 300, {}}, [](TrainingModel& other) { other.worker_cpu.reset(); }));
  CHECK_FALSE(learnt({4, 300, {}}, [](TrainingModel& other) { other.workers = 0; }));
  TrainingModel far = made.model();
  learn_from_fewer_cores(far, {4, 100, {}});
  CHECK(rates_of(far, {.cores = 4}).samples_per_s == doctest::Approx(0.8 * by_law));
}
