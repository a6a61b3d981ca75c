#include "models/whatif/training_delivery.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "advice_rig.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using testing::Made;

namespace {

/// On two cores its two workers leave the training no core, and computing 16 ms takes so many seconds then, and on one core as many as `on_one`.
ProfileResult busy_profile(double on_two, std::optional<double> on_one) {
  ProfileResult profile = testing::prep_bound();
  profile.host.cores = 2;
  profile.loader->workers = 2;
  profile.prep = testing::rate(200);
  profile.prep_by_workers = {{1, 100, {99, 101}, 0.0, 0.0, 0.0099}, {2, 200, {198, 202}, 0.0, 0.0, 0.0099}};
  profile.runs[0].samples_per_s = 200;
  profile.runs[0].ci95_samples_per_s = {199, 201};
  profile.runs[1].cores_used = 0.01;
  profile.waits->step_seconds = 0.08;
  profile.waits->compute.seconds_per_step = on_two;
  profile.waits->data.seconds_per_step = 0.08 - on_two;
  for (WorkerPoint& point : profile.prep_by_workers) point.busy_take_over_seconds_per_sample = 0;
  if (!on_one) return profile;
  profile.on_fewer_cores = FewerCoresRecord{1, 100, {99, 101}, on_one};
  for (WorkerPoint& point : profile.prep_by_workers) point.on_fewer_cores = FewerCoresPoint{1, 100, {99, 101}, 0.0};
  return profile;
}

}  // namespace

TEST_CASE("computing that busy workers slow down is measured on all cores and on fewer, and goes with the workers that share a core") {
  const TrainingModel model = training_model(busy_profile(0.018, 0.022));
  REQUIRE(model.slowed.size() == 2);
  CHECK(model.slowed[0].sharing == 1);
  CHECK(model.slowed[0].seconds == doctest::Approx(0.002));
  CHECK(model.slowed[1].sharing == 2);
  CHECK(model.slowed[1].seconds == doctest::Approx(0.006));
  // At a rate at which the workers use up the core.
  const auto on_one = [&model](int workers) { return held_up_seconds(model, workers, 1, 100); };
  CHECK(on_one(1) == doctest::Approx(0.002));
  CHECK(on_one(2) == doctest::Approx(0.006));
  CHECK(on_one(4) == doctest::Approx(0.008));
  CHECK(on_one(8) == doctest::Approx(0.009));
  CHECK(held_up_seconds(model, 2, 1, 0) < 0.4 * 0.006);  // They rest.
  CHECK(held_up_seconds(model, 1, 2, 200) == 0);
  CHECK(held_up_seconds(model, 4, 2, 200) == doctest::Approx(model.held_up_fraction * 0.006));
  // A step that takes twice as long loses as much.
  const double longer = 16 / rates_of(model, {.workers = 4, .cores = 1, .speed = 0.1}).samples_per_s;
  CHECK(longer == doctest::Approx(0.16 + 0.008).epsilon(0.02));
}

TEST_CASE("computing that fewer cores slow down no more than all do is taken for as slow, and what was not measured for nothing") {
  const TrainingModel faster = training_model(busy_profile(0.020, 0.017));
  REQUIRE(faster.slowed.size() == 2);
  CHECK(faster.slowed[1].seconds == doctest::Approx(faster.slowed[0].seconds));
  const TrainingModel on_all = training_model(busy_profile(0.020, std::nullopt));
  REQUIRE(on_all.slowed.size() == 1);
  CHECK(on_all.slowed[0].seconds == doctest::Approx(0.004));
  ProfileResult idle = busy_profile(0.016, 0.022);
  idle.prep_by_workers[0].workers_seconds_per_sample = idle.prep_by_workers[1].workers_seconds_per_sample = 0.001;
  CHECK(training_model(idle).slowed.empty());
  ProfileResult ranks = busy_profile(0.018, 0.022);
  ranks.settings.accelerators = 2;
  CHECK(training_model(ranks).slowed.empty());
  ProfileResult computes = busy_profile(0.018, 0.022);
  computes.runs[1].cores_used = 0.9;
  CHECK(training_model(computes).slowed.empty());
}

TEST_CASE("what a step loses on fewer cores goes over into what it loses on all, and more workers than were measured are less sure") {
  TrainingModel model = training_model(busy_profile(0.018, 0.022));
  model.held_up_fraction = 0.2;
  CHECK(held_up_seconds(model, 2, 1.999, 200) == doctest::Approx(held_up_seconds(model, 2, 2, 200)).epsilon(0.01));
  double before = 1;
  for (const double cores : {0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0}) {
    CAPTURE(cores);
    const double now = held_up_seconds(model, 2, cores, 150);
    CHECK(now <= before);
    before = now;
  }
  CHECK(held_up_error_seconds(model, 2, 1, 100, 1) == 0);
  CHECK(held_up_error_seconds(model, 8, 1, 100, 1) == doctest::Approx(0.0015));
  CHECK(held_up_error_seconds(model, 2, 2, 200, 1) == 0);
  CHECK(held_up_error_seconds(model, 4, 2, 200, 1) == doctest::Approx(model.held_up_fraction * 0.002));  // 6 ms, as two on one core, not 2 ms.
  // A step of another length may lose another time there: the more, the less they are alike.
  for (const double longer : {2.0, 0.5}) CHECK(held_up_error_seconds(model, 2, 1, 100, longer) == doctest::Approx(0.25 * 0.5 * 0.006));
  CHECK(held_up_error_seconds(model, 2, 1, 100, 0.1) > held_up_error_seconds(model, 2, 1, 100, 0.5));
  CHECK(held_up_error_seconds(model, 2, 2, 200, 0.1) == doctest::Approx(0.25 * 0.9 * held_up_seconds(model, 2, 2, 200)));
  const auto width = [&model](double speed) {
    const TrainingRates rates = rates_of(model, {.workers = 2, .cores = 1, .speed = speed});
    return (rates.ci95_ingestion.high - rates.ci95_ingestion.low) / rates.ingestion;
  };
  CHECK(width(4) > 1.5 * width(1));
  CHECK(held_up_seconds(model, 800, 1, 100) == doctest::Approx(0.010).epsilon(0.01));
  CHECK(rates_of(model, {.workers = 16, .cores = 1, .speed = 0.1}).ci95_ingestion.low <
        rates_of(model, {.workers = 2, .cores = 1, .speed = 0.1}).ci95_ingestion.low - 0.5);
}

TEST_CASE("where neither drains nor computing lost anything on fewer cores, the training as found there still says what a step loses") {
  ProfileResult profile = busy_profile(0.016, 0.016);
  profile.ingestion = testing::rate(50);  // Steps of 320 ms are the slower ones.
  profile.runs[0].samples_per_s = 50;
  profile.runs[0].ci95_samples_per_s = {49.9, 50.1};
  profile.waits->step_seconds = 0.32;
  profile.waits->compute.seconds_per_step = 0.32;
  profile.waits->data.seconds_per_step = 0;
  profile.on_fewer_cores = FewerCoresRecord{1, 16 / 0.323, {16 / 0.3231, 16 / 0.3229}, 0.32};
  const TrainingModel model = training_model(profile);
  REQUIRE(model.fewer_cores);
  CHECK(16 / rates_of(model, {.cores = 1}).samples_per_s == doctest::Approx(0.323).epsilon(0.001).scale(0));
}

TEST_CASE("batches that come late on fewer cores are taken over as late as drains there saw") {
  ProfileResult profile = busy_profile(0.016, 0.016);
  const auto lost = [&profile](int workers, double cores, double rate = 200) {
    const TrainingModel model = training_model(profile);
    return held_up_seconds(model, workers, cores, rate) / model.step_samples;
  };
  CHECK(lost(2, 1) == doctest::Approx(0).epsilon(1e-9).scale(1e-3));
  profile.prep_by_workers[0].on_fewer_cores->busy_take_over_seconds_per_sample = 0.0002;
  profile.prep_by_workers[1].on_fewer_cores->busy_take_over_seconds_per_sample = 0.0005;
  for (const int workers : {1, 2, 8}) CHECK(lost(workers, 1) == doctest::Approx(0.00035));
  // However seldom a step wakes a worker: there is no other core that rests. With a second one there is.
  for (const double rate : {1.0, 20.0, 100.0}) CHECK(lost(2, 1, rate) == doctest::Approx(0.00035));
  CHECK(lost(2, 1.75, 20) < 0.3 * 0.00035);
}

TEST_CASE("taking a batch over costs a step no more than it took as found beyond the one with batches at hand, whatever drains saw") {
  ProfileResult profile = busy_profile(0.016, std::nullopt);
  profile.ingestion = testing::rate(50);  // Steps of 320 ms are the slower ones.
  profile.runs[0].samples_per_s = 16 / 0.3208;
  profile.runs[0].ci95_samples_per_s = {16 / 0.3209, 16 / 0.3207};
  profile.waits->step_seconds = 0.3208;
  profile.waits->compute.seconds_per_step = 0.32;
  profile.waits->data.seconds_per_step = 0.0008;
  const auto step = [&profile](double take_over, double thread_cpu, double speed) {
    for (WorkerPoint& point : profile.prep_by_workers) {
      point.take_over_seconds_per_sample = take_over;
      point.main_thread_seconds_per_sample = point.process_seconds_per_sample = thread_cpu;
    }
    return 16 / rates_of(training_model(profile), {.workers = 3, .speed = speed}).ingestion;
  };
  for (const double take_over : {0.0, 0.00005, 0.0002, 0.01}) {
    CAPTURE(take_over);
    CHECK(step(take_over, 0, 1) == doctest::Approx(0.3208).epsilon(1e-4));
    CHECK(step(take_over, 0, 4) == doctest::Approx(0.0808).epsilon(1e-4));
  }
  CHECK(step(0.0002, 0.0001, 1) == doctest::Approx(0.3216).epsilon(1e-4));  // What it computes, it computes.
}

TEST_CASE("between numbers of workers that were measured, late batches lie on a straight line, and beyond them they are as late as the last") {
  ProfileResult profile = busy_profile(0.016, std::nullopt);
  profile.prep_by_workers.push_back({4, 200, {198, 202}, 0.0, 0.0, 0.0099});
  profile.prep_by_workers.push_back({8, 200, {198, 202}, 0.0, 0.0, 0.0099});
  profile.prep_by_workers[1].busy_take_over_seconds_per_sample = 0.0002;
  profile.prep_by_workers[3].busy_take_over_seconds_per_sample = 0.0008;
  const TrainingModel model = training_model(profile);
  const auto lost = [&model](int workers) { return held_up_seconds(model, workers, 2, 200) / model.step_samples / model.held_up_fraction; };
  for (const auto& each : {std::pair{1, 0.0}, {2, 0.0002}, {4, 0.0004}, {5, 0.0005}, {8, 0.0008}, {16, 0.0008}}) {
    const int workers = each.first;
    const double late = each.second;
    CAPTURE(workers);
    CHECK(lost(workers) == doctest::Approx(late).epsilon(1e-6).scale(1e-3));
    // As found it has two.
    CHECK(held_up_error_seconds(model, workers, 2, 200, 1) == doctest::Approx(model.held_up_fraction * 16 * std::abs(late - 0.0002) / 2).scale(1e-3));
  }
}
