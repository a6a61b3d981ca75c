#include "models/whatif/training_cores.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "answers.hpp"
#include "base/random.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using testing::has_code;
using testing::Made;

namespace {

/// A run that used up the cores.
RunRecord busy_run(const TrainingModel& model, double samples_per_s) {
  RunRecord run;
  run.samples_per_s = samples_per_s;
  run.cores_used = 0.95 * model.cores;
  run.requested_bytes = Bytes{100} << 20;
  run.storage_bytes = 0;
  return run;
}

double made_prep(const TrainingModel& model) { return model.cores / (*model.worker_cpu + model.process_cpu); }

TrainingModel learnt_from(TrainingModel model, double found) {
  model.found = found;
  model.ci95_found = {0.98 * found, 1.02 * found};
  const RunRecord drained = busy_run(model, made_prep(model));
  learn_from_found(model, busy_run(model, found), &drained);
  return model;
}

}  // namespace

TEST_CASE("where the cores limit prep, the training as found says what taking batches costs that a drain does not see") {
  // Two workers use up the cores with some time to spare.
  const Made made{.seconds = 0.0036, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 2};
  const TrainingModel by_law = made.model();  // P of 500 samples/s, steps of 800.
  REQUIRE(rates_of(by_law, {}).samples_per_s == doctest::Approx(500));
  const TrainingModel model = learnt_from(by_law, 460);
  CHECK(rates_of(model, {}).samples_per_s == doctest::Approx(460));
  CHECK(rates_of(model, {}).ci95.low < 460 * 0.98);
  CHECK(rates_of(model, {.workers = 8}).samples_per_s == doctest::Approx(460));
  CHECK(rates_of(model, {.cores = 1}).samples_per_s == doctest::Approx(230));
  CHECK(rates_of(model, {.workers = 1}).samples_per_s == doctest::Approx(1 / 0.0036));  // Its core is its own.
  CHECK(rates_of(model, {.cores = 3}).samples_per_s == doctest::Approx(690));
  CHECK(rates_of(model, {.speed = 0.25}).samples_per_s == doctest::Approx(200));
  CHECK(has_code(answer(model, {}).findings, "prep-beside-steps"));
  CHECK_FALSE(has_code(answer(by_law, {}).findings, "prep-beside-steps"));
  // A drain that was disturbed supplied too little; no more than the workers supply with a core each.
  CHECK(rates_of(learnt_from(by_law, 540), {}).samples_per_s == doctest::Approx(540));
  CHECK(rates_of(learnt_from(by_law, 540), {.workers = 2}).samples_per_s < 2.001 / 0.0036);
}

TEST_CASE("more workers are never slower, and more cores neither, by what was found beside steps") {
  for (const double seconds : {0.003, 0.0036, 0.0039}) {
    for (const double found : {410.0, 460.0, 560.0}) {
      CAPTURE(seconds);
      CAPTURE(found);
      const Made made{.seconds = seconds, .cpu = std::min(seconds, 0.004), .take = 0, .step = 0.008, .outside = 0, .workers = 4, .cores = 2};
      TrainingModel trains = made.model();
      trains.training_cpu = 0.0001;
      const TrainingModel model = learnt_from(trains, found * 0.004 / std::min(seconds, 0.004));
      REQUIRE(model.beside_steps != 1);
      for (const double cores : {1.0, 2.0, 3.0, 4.0, 8.0}) {
        double before = 0;
        for (const int workers : {1, 2, 3, 4, 6, 8}) {
          CAPTURE(cores);
          CAPTURE(workers);
          const double rate = rates_of(model, {.workers = workers, .cores = cores}).samples_per_s;
          CHECK(rate >= 0.999 * before);
          before = rate;
          CHECK(rate <= 1.001 * rates_of(model, {.workers = workers, .cores = cores + 1}).samples_per_s);
        }
      }
      CHECK_FALSE(fix_of(model));
    }
  }
}

TEST_CASE("a training as found that something else limits, or disturbs, says nothing of prep") {
  struct Case {
    Made made{.seconds = 0.004, .cpu = 0.004, .take = 0, .step = 0.02, .outside = 0, .workers = 4, .cores = 2};
    double found = 450, error = 0.01, drained = 500;
  };
  const auto factor = [](auto&& change) {
    Case each;
    TrainingModel model;
    RunRecord run;
    change(each, model, run);  // the first time, for what it is made of
    model = each.made.model();
    model.found = each.found;
    run = busy_run(model, each.found);
    change(each, model, run);
    model.ci95_found = {(1 - each.error) * model.found, (1 + each.error) * model.found};
    const RunRecord drained = busy_run(model, each.drained);
    learn_from_found(model, run, each.drained > 0 ? &drained : nullptr);
    return model.beside_steps;
  };
  CHECK(factor([](Case&, TrainingModel&, RunRecord&) {}) == doctest::Approx(0.9));
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.waits_for_storage = true; }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.crowded = true; }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.disturbed = true; }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.worker_cpu.reset(); }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.training_cpu.reset(); }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.training_cpu = 0.001; }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.workers = 0; }) == 1);
  CHECK(factor([](Case&, TrainingModel& model, RunRecord&) { model.ranks = 2; }) == 1);
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.found = 0; }) == 1);
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.found = 300; }) == doctest::Approx(0.8));  // That is more than a correction.
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.error = 0; }) == 1);                       // of a single window
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.drained = 460; }) == 1);  // A sample took as much CPU time as there.
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.drained = 0; }) == 1);
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.error = 0.15; }) == 1);  // That may be P.
  CHECK(factor([](Case&, TrainingModel&, RunRecord& run) { run.cores_used.reset(); }) == 1);
  CHECK(factor([](Case&, TrainingModel&, RunRecord& run) { run.cores_used = 1.5; }) == 1);  // It waits for something.
  CHECK(factor([](Case&, TrainingModel&, RunRecord& run) { run.storage_bytes.reset(); }) == 1);
  CHECK(factor([](Case&, TrainingModel&, RunRecord& run) { run.storage_bytes = Bytes{10} << 20; }) == 1);
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.made.step = 0.04; }) == 1);   // Steps limit it,
  CHECK(factor([](Case& each, TrainingModel&, RunRecord&) { each.made.step = 0.031; }) == 1);  // or both do,
  // or the number of workers.
  CHECK(factor([](Case& each, TrainingModel& model, RunRecord&) {
          each.made.seconds = 0.0045;
          each.made.workers = 2;
          each.found = 410;
          if (model.prep.size() > 1) model.prep.resize(2);
        }) == 1);
}

TEST_CASE("of what a drain does not see, nothing is saved by cheaper prep") {
  const Made made{.seconds = 0.0036, .cpu = 0.004, .take = 0, .step = 0.002, .outside = 0, .workers = 8, .cores = 2};
  const TrainingModel model = learnt_from(made.model(), 400);  // a millisecond more for each sample
  REQUIRE(model.beside_steps == doctest::Approx(0.8));
  CHECK(rates_of(with_less_cpu(model, 0.5), {}).prep == doctest::Approx(2 / (0.002 + 0.001)));
}

TEST_CASE("workers that share a core cost it as much as they did where as many shared one") {
  // Four workers on two cores supply a tenth less than two.
  TrainingModel model = Made{.seconds = 0.0036, .cpu = 0.004, .take = 0, .step = 0.002, .outside = 0, .workers = 2, .cores = 2}.model();
  REQUIRE(model.prep.size() == 4);
  model.prep[2].samples_per_s = model.prep[3].samples_per_s = 450;
  CHECK(rates_of(model, {.workers = 2}).prep == doctest::Approx(500));
  CHECK(rates_of(model, {.workers = 1, .cores = 1}).prep == doctest::Approx(250));
  CHECK(rates_of(model, {.workers = 2, .cores = 1}).prep == doctest::Approx(225));
  CHECK(rates_of(model, {.workers = 6, .cores = 1}).prep == doctest::Approx(225));
  CHECK(rates_of(model, {.workers = 8, .cores = 8}).prep == doctest::Approx(2000));
  CHECK(rates_of(model, {.workers = 16, .cores = 8}).prep == doctest::Approx(1800));
}

TEST_CASE("a point where two limits hold alike says of both what was measured") {
  // Eight workers of 10 ms on eight cores are limited by their number and by the cores alike, and reach three quarters of either.
  for (const double cpu : {0.0098, 0.0099, 0.01, 0.0101, 0.0102}) {
    TrainingModel model = Made{.seconds = 0.01, .cpu = cpu, .take = 0, .step = 0.0001, .outside = 0, .workers = 8, .cores = 8}.model();
    REQUIRE(model.prep.size() == 4);
    for (std::size_t at = 0; at < 3; ++at) model.prep[at].samples_per_s = 100 << at;
    model.prep[3].samples_per_s = 600;
    CAPTURE(cpu);
    CHECK(rates_of(model, {.workers = 8}).prep == doctest::Approx(600));
    CHECK(rates_of(model, {.workers = 4}).prep == doctest::Approx(400));
    for (const int workers : {4, 6, 8, 16}) {
      CAPTURE(workers);
      CHECK(rates_of(model, {.workers = workers, .cores = 4}).prep == doctest::Approx(300).epsilon(0.03));
    }
    CHECK(rates_of(model, {.workers = 2, .cores = 4}).prep == doctest::Approx(200));
  }
}

TEST_CASE("whatever was measured, more workers and more cores are never slower, and what was measured stays") {
  RandomStream random(5);
  for (int trial = 0; trial < 3000; ++trial) {
    CAPTURE(trial);
    const double seconds = random.uniform(0.002, 0.02);
    const double cores = 1 + static_cast<double>(random.below(8));
    const Made made{.seconds = seconds,
                    .cpu = seconds * random.uniform(0.2, 1.5),
                    .take = trial % 3 == 0 ? seconds / random.uniform(2, 20) : 0.00005,
                    .step = 0.0001,
                    .outside = 0,
                    .cores = cores};
    TrainingModel model = made.model();
    double before = 0;
    int workers_before = 1;
    for (TrainingModel::Point& point : model.prep) {
      // No point is slower than the one before it, and none more than in proportion faster.
      const double most = before > 0 ? before * point.workers / workers_before : point.samples_per_s;
      point.samples_per_s = std::clamp(point.samples_per_s * random.uniform(0.3, 1.2), std::min(before, most), most);
      before = point.samples_per_s;
      workers_before = point.workers;
      point.error = 0.02;
    }
    std::erase_if(model.prep, [&random](const TrainingModel::Point& point) { return point.workers > 1 && random.below(3) == 0; });
    for (const TrainingModel::Point& point : model.prep)
      CHECK(rates_of(model, {.workers = point.workers}).prep == doctest::Approx(point.samples_per_s));
    TrainingModel trains = model;
    trains.ingestion = random.uniform(0.5, 2) * before;
    trains.training_cpu = random.uniform(0, 2) * cores / trains.ingestion;
    trains.competing_loss = 0;
    for (const TrainingModel& each : {model, trains}) {
      const auto rate = [&each](int workers, double some) {
        const TrainingRates rates = rates_of(each, {.workers = workers, .cores = some});
        CHECK(rates.ci95.low <= rates.samples_per_s);
        CHECK(rates.ci95.high >= rates.samples_per_s);
        return std::pair(rates.prep, rates.samples_per_s);
      };
      const auto rises = [](std::pair<double, double>& last, const std::pair<double, double>& now) {
        CHECK(now.first >= 0.9999 * last.first);
        CHECK(now.second >= 0.9999 * last.second);
        last = now;
      };
      for (const double some : {cores / 4, cores / 2, cores, 2 * cores}) {
        std::pair<double, double> last;
        for (int workers = 1; workers <= 20; ++workers) {
          CAPTURE(some);
          CAPTURE(workers);
          rises(last, rate(workers, some));
        }
      }
      for (const int workers : {1, 3, 8, 16}) {
        std::pair<double, double> last;
        for (double some = cores / 4; some <= 4 * cores; some += cores / 8) {
          CAPTURE(some);
          CAPTURE(workers);
          rises(last, rate(workers, some));
        }
      }
    }
  }
}

TEST_CASE("a number of workers that supplies less than it should says nothing certain of the cores, which it did not use up") {
  // Something else stops eight workers at twice what one supplies, and eight cores could supply 889 samples/s.
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.009, .take = 0, .step = 0.0001, .outside = 0, .workers = 8, .cores = 8}.model();
  model.prep[1].samples_per_s = 150;
  model.prep[2].samples_per_s = 180;
  model.prep[3].samples_per_s = 200;
  CHECK(rates_of(model, {.workers = 2, .cores = 4}).prep == doctest::Approx(150));
  CHECK(rates_of(model, {.workers = 4, .cores = 4}).prep == doctest::Approx(180));
  CHECK(rates_of(model, {.workers = 2, .cores = 2}).prep == doctest::Approx(150));
  CHECK(rates_of(model, {.workers = 16}).prep < 250);  // They go on as they did from four to eight.
  // What two close limits have in common may be of either.
  TrainingModel both = Made{.seconds = 0.01, .cpu = 0.0104, .take = 0, .step = 0.0001, .outside = 0, .workers = 2, .cores = 2}.model();
  both.prep.resize(2);
  both.prep[1].samples_per_s = 170;
  CHECK(rates_of(both, {.workers = 2, .cores = 4}).ci95_prep.high > 180);
  CHECK(rates_of(both, {.workers = 2}).ci95_prep.high < 175);
}

TEST_CASE("drains that all scatter alike keep what each of them measured") {
  TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 2, .cores = 2}.model();
  model.prep = {{1, 100, 0.064}, {2, 160, 0.064}};
  CHECK(rates_of(model, {}).prep == doctest::Approx(160));
  CHECK(rates_of(model, {}).ci95_prep.low == doctest::Approx(160 * (1 - 0.064)));
  model.prep[0].error = 0.01;  // One that is much less sure than the other one counts together with it.
  CHECK(rates_of(model, {}).prep > 165);
}

TEST_CASE("where the cores limit prep, what all of them say of fewer is right to a tenth") {
  const TrainingModel model = Made{.seconds = 0.01, .cpu = 0.01, .take = 0, .step = 0.0001, .outside = 0, .workers = 8, .cores = 8}.model();
  const auto error = [&model](int workers, double cores) {
    const TrainingRates rates = rates_of(model, {.workers = workers, .cores = cores});
    return (rates.ci95_prep.high - rates.ci95_prep.low) / 2 / rates.prep;
  };
  CHECK(error(8, 8) == doctest::Approx(0.01));
  for (const double cores : {4.0, 2.0, 1.0}) CHECK(error(8, cores) == doctest::Approx(std::hypot(0.01, 0.1)));
  CHECK(error(8, 7.9) < 0.011);                 // Hardly fewer are hardly less sure.
  CHECK(error(2, 4) == doctest::Approx(0.01));  // They have a core each.
}
