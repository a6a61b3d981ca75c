#include <doctest/doctest.h>

#include <cmath>

#include "made_training.hpp"
#include "models/whatif/training_cores.hpp"

// P on fewer cores than all, where the loader was drained there.

using namespace dsanalyze;
using testing::Made;

TEST_CASE("where the loader was drained on fewer cores, that is P there, and what lies between is told from both") {
  // On four cores the law holds. On two, two workers that have one each lose nothing, and four and more that share them lose a fifth.
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 4, .cores = 4}.model();
  model.prep_fewer_cores = 2;
  model.prep_on_fewer = {{2, 200, 1e-4}, {4, 170, 1e-4}, {8, 160, 1e-4}};
  const auto prep = [&model](int workers, double cores) { return rates_of(model, {.workers = workers, .cores = cores}).prep; };
  CHECK(prep(2, 2) == doctest::Approx(200));
  CHECK(prep(4, 2) == doctest::Approx(170));
  CHECK(prep(6, 2) == doctest::Approx(165));
  CHECK(prep(8, 2) == doctest::Approx(160));
  CHECK(prep(16, 2) == doctest::Approx(160));
  CHECK(prep(1, 2) == doctest::Approx(100));
  // Where two that have a core each lose a fifth by the other one, one of them alone does not.
  model.prep_on_fewer[0].samples_per_s = 160;
  CHECK(prep(1, 2) == doctest::Approx(100));
  model.prep_on_fewer[0].samples_per_s = 200;
  // Half way to four cores, which supply what they were measured to supply.
  CHECK(prep(4, 3) == doctest::Approx((170 + 400) / 2));
  CHECK(prep(2, 3) == doctest::Approx(200));
  CHECK(prep(4, 4) == doctest::Approx(400));
  CHECK(prep(8, 8) == doctest::Approx(800));
  // On one core, as many share it as on two with twice as many.
  CHECK(prep(2, 1) == doctest::Approx(85));
  CHECK(prep(4, 1) == doctest::Approx(80));
  CHECK(prep(1, 1) == doctest::Approx(100));
  const Interval drained = rates_of(model, {.workers = 4, .cores = 2}).ci95_prep;
  CHECK(drained.low == doctest::Approx(170).epsilon(0.001));
  CHECK(rates_of(model, {.workers = 6, .cores = 2}).ci95_prep.low < 0.98 * 165);
  // A drain that is not sure says less than what all cores say.
  TrainingModel unsure = model;
  for (TrainingModel::Point& point : unsure.prep_on_fewer) point.error = 0.1;
  CHECK(rates_of(unsure, {.workers = 4, .cores = 2}).prep == doctest::Approx(std::sqrt(200.0 * 170)));
  // What was drained there is no more than what all cores supply.
  model.prep_on_fewer[0].samples_per_s = 210;
  CHECK(prep(2, 2) == doctest::Approx(200));
  // Cheaper samples are cheaper there, too.
  CHECK(rates_of(with_less_cpu(model, 0.5), {.workers = 4, .cores = 2}).prep == doctest::Approx(340));
}

TEST_CASE("drains on fewer cores that lost nothing say that cores are not what limits there, and that still fewer may be enough") {
  // Workers wait most of the time, and something else than cores and the training process slows many of them.
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.001, .take = 0, .step = 0.0001, .outside = 0, .workers = 8, .cores = 8}.model();
  model.prep = {{1, 100, 0.01}, {2, 190, 0.01}, {4, 340, 0.01}, {8, 560, 0.01}, {16, 800, 0.01}};
  model.prep_fewer_cores = 4;
  model.prep_on_fewer = {{4, 340, 0.01}, {8, 560, 0.01}, {16, 800, 0.01}};
  for (const double cores : {1.0, 2.0, 3.0, 4.0, 6.0}) {
    CAPTURE(cores);
    CHECK(rates_of(model, {.workers = 8, .cores = cores}).prep == doctest::Approx(560));
    CHECK(rates_of(model, {.workers = 1, .cores = cores}).prep == doctest::Approx(100));
  }
  CHECK(rates_of(model, {.workers = 8, .cores = 0.25}).prep == doctest::Approx(250));
  // Nor does the training process, which is one on any number of them.
  TrainingModel taking = Made{.seconds = 0.01, .cpu = 0.002, .take = 0.0012, .step = 0.0001, .outside = 0, .workers = 8, .cores = 8}.model();
  taking.prep = {{1, 150, 0.01}, {2, 300, 0.01}, {4, 590, 0.01}, {8, 780, 0.01}, {16, 800, 0.01}};
  taking.prep_fewer_cores = 4;
  taking.prep_on_fewer = {{4, 500, 0.01}, {8, 780, 0.01}, {16, 790, 0.01}};
  for (const int workers : {1, 2, 4, 8}) {
    double before = 0;
    for (const double cores : {1.0, 2.0, 3.0, 4.0, 5.0, 8.0}) {
      CAPTURE(workers);
      CAPTURE(cores);
      const double rate = rates_of(taking, {.workers = workers, .cores = cores}).prep;
      CHECK(rate >= before);
      before = rate;
    }
  }
  // Few of many workers have a core each; what is known of many says as much of them as before.
  TrainingModel many = Made{.seconds = 0.01, .cpu = 0.001, .take = 1.0 / 1600, .step = 0.0001, .outside = 0, .workers = 8, .cores = 64}.model();
  const Interval known = rates_of(many, {.workers = 8}).ci95_prep;
  many.prep_fewer_cores = 32;
  many.prep_on_fewer = {{32, 1600, 0.01}, {64, 1600, 0.01}};
  CHECK(rates_of(many, {.workers = 8, .cores = 32}).prep == doctest::Approx(800));
  CHECK(rates_of(many, {.workers = 8, .cores = 32}).ci95_prep.low == doctest::Approx(known.low).epsilon(0.002));
}

TEST_CASE("what the training as found says of prep beside steps is of the cores, and not of workers that have a core each") {
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 64, .cores = 64}.model();
  model.prep = {{1, 100, 0.01}, {32, 3200, 0.01}, {64, 6400, 0.01}};
  model.prep_fewer_cores = 32;
  model.prep_on_fewer = {{32, 3200, 0.001}, {64, 3000, 0.001}};
  model.beside_steps = 0.9;
  CHECK(rates_of(model, {.workers = 64, .cores = 32}).prep == doctest::Approx(2700).epsilon(0.001));
  CHECK(rates_of(model, {.workers = 8, .cores = 32}).prep == doctest::Approx(800));
  CHECK(rates_of(model, {.workers = 8, .cores = 32}).prep_limit == TrainingRates::Limit::workers);
}

TEST_CASE("one drain on fewer cores that is not sure takes nothing from those that are") {
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 4, .cores = 4}.model();
  model.prep_fewer_cores = 2;
  model.prep_on_fewer = {{2, 200, 0.01}, {4, 170, 0.01}, {8, 160, 0.4}};
  CHECK(rates_of(model, {.workers = 4, .cores = 2}).prep == doctest::Approx(170).epsilon(0.01));
  const TrainingRates eight = rates_of(model, {.workers = 8, .cores = 2});
  CHECK(eight.prep > 190);  // By the law 200.
  CHECK(eight.ci95_prep.low < 0.92 * eight.prep);
}

TEST_CASE("drains that all scatter alike keep what each of them measured") {
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 2, .cores = 2}.model();
  model.prep = {{1, 100, 0.064}, {2, 160, 0.064}};
  CHECK(rates_of(model, {}).prep == doctest::Approx(160));
  CHECK(rates_of(model, {}).ci95_prep.low == doctest::Approx(160 * (1 - 0.064)));
  model.prep[0].error = 0.01;  // One that is much less sure than the other one counts together with it.
  CHECK(rates_of(model, {}).prep > 165);
}

TEST_CASE("the training as found on fewer cores is compared with what was drained there") {
  const Made made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.002, .outside = 0, .workers = 8, .cores = 8};
  TrainingModel model = made.model();
  model.prep_fewer_cores = 4;
  model.prep_on_fewer = {{4, 390, 0.001}, {8, 360, 0.001}};
  learn_from_fewer_cores(model, {4, 342, {341, 343}});
  REQUIRE(model.fewer_cores);
  CHECK(model.fewer_cores->prep_factor == doctest::Approx(0.95).epsilon(0.003));
  CHECK(rates_of(model, {.cores = 4}).samples_per_s == doctest::Approx(342).epsilon(0.003));
  CHECK(rates_of(model, {.workers = 4, .cores = 4}).samples_per_s == doctest::Approx(390 * 0.95).epsilon(0.003));
}
