#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "advice_rig.hpp"

namespace dsanalyze {

using namespace testing;

namespace {

/// A script that reaches 100 samples/s, and prep could supply 3,600.
ProfileResult with_cost(ScriptCostRecord cost) {
  ProfileResult profile = accelerator_bound();
  cost.file = "/job/train.py";
  cost.line = 88;
  cost.training_samples_per_s = 100;
  profile.script_costs = {cost};
  return profile;
}

ScriptCostRecord cost_of(ScriptCostRecord::What what, double fraction, double waited, std::optional<int> workers) {
  ScriptCostRecord cost;
  cost.what = what;
  cost.count = 10;
  cost.seconds_each = 0.5;
  cost.fraction = fraction;
  cost.waited_fraction = waited;
  cost.workers = workers;
  return cost;
}

/// An image folder whose workers do nothing that dsanalyze.Loader does not do.
ProfileResult with_own_prep(double samples_per_s) {
  ProfileResult profile = prep_bound();
  OwnPrepRecord& prep = profile.own_prep.emplace();
  prep.samples_per_s = samples_per_s;
  prep.ci95_samples_per_s = {0.98 * samples_per_s, 1.02 * samples_per_s};
  prep.threads = 16;
  prep.crop_size = 224;
  prep.images = 512;
  profile.host.accelerator_shares_cores = false;
  return profile;
}

}  // namespace

TEST_CASE("checkpoints that take a part of the time are named by line, with what the training reaches without them") {
  const ProfileResult profile = with_cost(cost_of(ScriptCostRecord::What::save, 0.2, 0, std::nullopt));
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "slow-checkpoint");
  REQUIRE(advice != nullptr);
  CHECK(advice->file == "/job/train.py");
  CHECK(advice->line == 88);
  CHECK(says(advice->text, "train.py:88 writes a checkpoint in 500 ms each time, which is 20 % of the time"));
  CHECK(advice->gain->at_most);
  CHECK(advice->gain->samples_per_s == doctest::Approx(125));
  CHECK(advice->gain->speedup == doctest::Approx(1.25));
  // One checkpoint more or less may have come into the time that was measured.
  CHECK(advice->gain->ci95_samples_per_s.low == doctest::Approx(100 / 0.82));
  CHECK(advice->gain->ci95_samples_per_s.high == doctest::Approx(100 / 0.78));
}

TEST_CASE("checkpoints that take little, or were seen once, are not told") {
  CHECK(find(advice_on(with_cost(cost_of(ScriptCostRecord::What::save, 0.04, 0, std::nullopt))), "slow-checkpoint") == nullptr);
  ScriptCostRecord once = cost_of(ScriptCostRecord::What::save, 0.2, 0, std::nullopt);
  once.count = 1;
  CHECK(find(advice_on(with_cost(once)), "slow-checkpoint") == nullptr);
}

TEST_CASE("no gain is beyond what prep supplies") {
  ProfileResult profile = with_cost(cost_of(ScriptCostRecord::What::save, 0.9, 0, std::nullopt));
  profile.script_costs[0].training_samples_per_s = 1000;
  const std::vector<AdviceRecord> list = advice_on(profile);
  REQUIRE(find(list, "slow-checkpoint") != nullptr);
  CHECK(find(list, "slow-checkpoint")->gain->samples_per_s == doctest::Approx(3600).epsilon(0.01));
}

TEST_CASE("a validation that waits for a loader without workers is advised to have some, and no other one is") {
  const std::vector<AdviceRecord> list = advice_on(with_cost(cost_of(ScriptCostRecord::What::validation, 0.4, 0.5, 0)));
  const AdviceRecord* const advice = find(list, "validation-workers");
  REQUIRE(advice != nullptr);
  CHECK(says(advice->text, "train.py:88 num_workers=4, persistent_workers=True: loops over this loader take 40 % of the time and wait 50 % of that"));
  CHECK(advice->gain->samples_per_s == doctest::Approx(125));
  // Four workers are four times as fast as the script, and not more.
  const std::vector<AdviceRecord> waiting = advice_on(with_cost(cost_of(ScriptCostRecord::What::validation, 0.4, 1, 0)));
  REQUIRE(find(waiting, "validation-workers") != nullptr);
  CHECK(find(waiting, "validation-workers")->gain->samples_per_s == doctest::Approx(100 / 0.7));
  // An iterable that the script watches has no such option.
  CHECK(find(advice_on(with_cost(cost_of(ScriptCostRecord::What::validation, 0.4, 0.5, std::nullopt))), "validation-workers") == nullptr);
  CHECK(find(advice_on(with_cost(cost_of(ScriptCostRecord::What::validation, 0.4, 0.5, 2))), "validation-workers") == nullptr);
  CHECK(find(advice_on(with_cost(cost_of(ScriptCostRecord::What::validation, 0.4, 0.1, 0))), "validation-workers") == nullptr);
}

TEST_CASE("what a line explains is not told as time outside of the steps once more") {
  ProfileResult profile = with_cost(cost_of(ScriptCostRecord::What::save, 0.3, 0, std::nullopt));
  profile.waits->step_seconds = 0.04;
  profile.waits->outside.seconds_per_step = 0.012;  // all of it the checkpoint's
  profile.waits->compute.seconds_per_step = 0.028;
  CHECK(find(advice_on(profile), "outside-of-steps") == nullptr);
  profile.waits->outside.seconds_per_step = 0.032;  // and as much again for something else
  profile.waits->compute.seconds_per_step = 0.008;
  const std::vector<AdviceRecord> both = advice_on(profile);
  REQUIRE(find(both, "outside-of-steps") != nullptr);
  CHECK(says(find(both, "outside-of-steps")->text, "takes 20 ms of each step's 40 ms"));
  profile.script_costs.clear();
  CHECK(find(advice_on(profile), "outside-of-steps") != nullptr);
}

TEST_CASE("dsanalyze.Loader is advised where it is surely faster, at the rate that was measured") {
  const std::vector<AdviceRecord> list = advice_on(with_own_prep(800));
  const AdviceRecord* const advice = find(list, "own-loader");
  REQUIRE(advice != nullptr);
  CHECK(says(advice->text,
             "train.py:41 dsanalyze.Loader in its place: it decodes and crops these images to 224 pixels at 800 ± 16 samples/s on 16 cores"));
  CHECK(advice->gain->samples_per_s == doctest::Approx(800).epsilon(0.02));
  CHECK(advice->gain->speedup == doctest::Approx(2).epsilon(0.02));
  CHECK(advice->gain->next == "prep");
  // Faster than the training, it leaves the training as the bottleneck.
  const std::vector<AdviceRecord> fast = advice_on(with_own_prep(9000));
  CHECK(find(fast, "own-loader")->gain->samples_per_s == doctest::Approx(1000).epsilon(0.02));
  CHECK(find(fast, "own-loader")->gain->next == "GPU");
}

TEST_CASE("where the CPU trains, dsanalyze.Loader shares the cores with it") {
  ProfileResult profile = with_own_prep(4000);
  profile.host.accelerator_shares_cores = true;
  for (RunRecord& run : profile.runs)
    if (run.name == "synthetic") run.cores_used = 16;
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "own-loader");
  REQUIRE(advice != nullptr);
  // A step that computes on all of 16 cores waits for the one that a worker has, too.
  CHECK(advice->gain->samples_per_s < 900);
  CHECK(advice->gain->samples_per_s > 450);
}

TEST_CASE("dsanalyze.Loader is not advised where it is no faster, and where the steps do not wait for prep") {
  CHECK(find(advice_on(with_own_prep(410)), "own-loader") == nullptr);
  ProfileResult profile = accelerator_bound();
  profile.own_prep = with_own_prep(9000).own_prep;
  CHECK(find(advice_on(profile), "own-loader") == nullptr);
}

TEST_CASE("batches that come late one by one, of a loader that keeps up, are covered by more batches ahead") {
  ProfileResult profile = accelerator_bound();
  profile.loader->prefetch = 2;
  profile.runs[0].samples_per_s = 320;
  profile.runs[0].ci95_samples_per_s = {316, 324};
  profile.waits->step_seconds = 0.05;
  profile.waits->data.seconds_per_step = 0.01;
  profile.waits->data_p99_seconds = 0.2;
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "prefetch-factor");
  REQUIRE(advice != nullptr);
  // Five steps of 40 ms cover for 200 ms: two batches more for each of four workers.
  CHECK(says(advice->text, "train.py:41 prefetch_factor=4 (now 2)"));
  CHECK(advice->gain->at_most);
  CHECK(advice->gain->samples_per_s == doctest::Approx(400).epsilon(0.05));
  profile.waits->data_p99_seconds = 0.012;  // Each step waits alike: batches that are slow to take over.
  CHECK(find(advice_on(profile), "prefetch-factor") == nullptr);
  profile.waits->data_p99_seconds = 0.2;
  profile.loader->workers = 0;
  CHECK(find(advice_on(profile), "prefetch-factor") == nullptr);
  CHECK(find(advice_on(prep_bound()), "prefetch-factor") == nullptr);
}

}  // namespace dsanalyze
