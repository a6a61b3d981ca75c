#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "attached_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("what a device hides of the waiting is computing, and no bottleneck") {
  LaunchedTraining launched = prep_bound();
  AttachedTraining& training = launched.training;
  // The process waits half of the time, and the device has as much to do with batches at hand.
  training.phases[AttachPhase::full] = training.phases[AttachPhase::cached] = phase_of(0.010, 0.010);
  training.phases[AttachPhase::synthetic] = phase_of(0, 0.020);
  training.drains = {drain_of(2, 0.012)};
  const ProfileResult hidden = profile_of(launched);
  REQUIRE(hidden.waits);
  CHECK(hidden.waits->data.fraction < 0.01);
  CHECK(hidden.waits->compute.fraction > 0.99);
  CHECK(hidden.bottleneck->detail == "accelerator");
  // A CPU has nothing else to do meanwhile.
  training.device.cuda = false;
  CHECK(profile_of(launched).waits->data.fraction == doctest::Approx(0.5).epsilon(0.01));
  // A part of it is lost.
  training.device.cuda = true;
  training.phases[AttachPhase::synthetic] = phase_of(0, 0.016);
  CHECK(profile_of(launched).waits->data.fraction == doctest::Approx(0.2).epsilon(0.02));
}

TEST_CASE("a GPU that rests though batches are at hand waits for the process that launches its work") {
  for (const double use : {0.5, 0.95}) {
    LaunchedTraining launched = prep_bound();
    AttachedTraining& training = launched.training;
    training.phases[AttachPhase::full] = training.phases[AttachPhase::cached] = phase_of(0.0001, 0.020);
    training.phases[AttachPhase::synthetic] = phase_of(0, 0.020);
    training.phases[AttachPhase::synthetic].device_use = {use, use, 0};
    training.drains = {drain_of(2, 0.012)};
    const ProfileResult result = profile_of(launched);
    CHECK(result.run("synthetic")->device_use_fraction == use);
    CHECK(result.bottleneck->detail == (use < 0.9 ? "launching" : "accelerator"));
    CHECK(says(result.bottleneck->reason, "with batches at hand the GPU computes 50 % of the time") == (use < 0.9));
  }
}

TEST_CASE("what workers take from the steps is said to be missing where it was not measured, unless there are none") {
  LaunchedTraining launched = prep_bound();
  CHECK(says(finding_of(profile_as_measured(launched), "phases-missing").message, "busy"));
  launched.training.loader->workers = 0;
  launched.training.drains = {drain_of(0, 0.020)};
  CHECK_FALSE(finds(profile_as_measured(launched), "phases-missing"));
}
