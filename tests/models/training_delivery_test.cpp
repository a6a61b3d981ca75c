#include "models/whatif/training_delivery.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "advice_rig.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using testing::Made;

namespace {

/// On two cores its two workers leave the training no core, and computing 16 ms takes so many seconds then.
ProfileResult busy_profile(double seconds) {
  ProfileResult profile = testing::prep_bound();
  profile.host.cores = 2;
  profile.loader->workers = 2;
  profile.prep = testing::rate(200);
  profile.prep_by_workers = {{1, 100, {99, 101}, 0.0, 0.0, 0.0099}, {2, 200, {198, 202}, 0.0, 0.0, 0.0099}};
  profile.runs[0].samples_per_s = 200;
  profile.runs[0].ci95_samples_per_s = {199, 201};
  profile.runs[1].cores_used = 0.01;
  profile.waits->step_seconds = 0.08;
  profile.waits->compute.seconds_per_step = seconds;
  profile.waits->data.seconds_per_step = 0.08 - seconds;
  for (WorkerPoint& point : profile.prep_by_workers) point.busy_take_over_seconds_per_sample = 0;
  return profile;
}

}  // namespace

TEST_CASE("computing that busy workers slow down is measured where they use up the cores beside steps that leave them alone") {
  const TrainingModel model = training_model(busy_profile(0.020));
  CHECK(model.slowed_seconds == doctest::Approx(0.004));
  // At rates at which the workers use up the cores, and on one core what a worker that wakes takes besides.
  CHECK(held_up_seconds(model, 4, 2, 200) == doctest::Approx(model.held_up_fraction * 0.004));
  CHECK(held_up_seconds(model, 2, 1, 100) == doctest::Approx(0.004 + 0.65 * 0.003));
  CHECK(held_up_seconds(model, 1, 2, 70) == 0);  // They rest.
  ProfileResult idle = busy_profile(0.020);
  idle.prep_by_workers[0].workers_seconds_per_sample = idle.prep_by_workers[1].workers_seconds_per_sample = 0.001;
  CHECK(training_model(idle).slowed_seconds == 0);
  ProfileResult ranks = busy_profile(0.020);
  ranks.settings.accelerators = 2;
  CHECK(training_model(ranks).slowed_seconds == 0);
  ProfileResult computes = busy_profile(0.020);
  computes.runs[1].cores_used = 0.9;
  CHECK(training_model(computes).slowed_seconds == 0);
}

TEST_CASE("what a step loses on fewer cores goes over into what it loses on all, and a step of another length is less sure") {
  const TrainingModel model = training_model(busy_profile(0.018));
  CHECK(held_up_seconds(model, 2, 1.999, 200) == doctest::Approx(held_up_seconds(model, 2, 2, 200)).epsilon(0.01));
  double before = 1;
  for (const double cores : {0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 3.0}) {
    CAPTURE(cores);
    const double now = held_up_seconds(model, 2, cores, 150);
    CHECK(now <= before);
    before = now;
  }
  CHECK(held_up_error_seconds(model, 2, 1, 100, 1) == 0);
  CHECK(held_up_error_seconds(model, 2, 2, 200, 1) == 0);
  // The less alike two steps are, the more they may differ in what they lose.
  const double lost = held_up_seconds(model, 2, 1, 100);
  for (const double longer : {2.0, 0.5}) CHECK(held_up_error_seconds(model, 2, 1, 100, longer) == doctest::Approx(0.25 * 0.5 * lost));
  CHECK(held_up_error_seconds(model, 2, 1, 100, 0.1) > held_up_error_seconds(model, 2, 1, 100, 0.5));
  CHECK(held_up_error_seconds(model, 2, 2, 200, 0.1) == doctest::Approx(0.25 * 0.9 * held_up_seconds(model, 2, 2, 200)));
  const auto width = [&model](double speed) {
    const TrainingRates rates = rates_of(model, {.workers = 2, .cores = 1, .speed = speed});
    return (rates.ci95_ingestion.high - rates.ci95_ingestion.low) / rates.ingestion;
  };
  CHECK(width(4) > 1.5 * width(1));
}

TEST_CASE("taking a batch over costs a step no more than it took as found beyond the one with batches at hand, whatever drains saw") {
  ProfileResult profile = busy_profile(0.016);
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
  ProfileResult profile = busy_profile(0.016);
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
