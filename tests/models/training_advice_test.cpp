#include "models/whatif/training_advice.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "advice_rig.hpp"

namespace dsanalyze {

using namespace testing;

TEST_CASE("a function that takes most of the workers' CPU time is named, with what the training would reach without it") {
  ProfileResult profile = prep_bound();
  profile.hot = {{"train.py:23 augment", "/job/train.py", 23, 0.5, Interval{0.45, 0.55}}, {"ToTensor", "/usr/lib/transforms.py", 9, 0.2, {}}};
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "slow-transform");
  REQUIRE(advice != nullptr);
  CHECK(std::ranges::count(list, "slow-transform", &AdviceRecord::code) == 1);
  CHECK(advice->file == "/job/train.py");
  CHECK(advice->line == 23);
  REQUIRE(advice->gain);
  // Of the 10 ms that a worker takes for a sample, 4.9 are left out.
  CHECK(advice->gain->samples_per_s == doctest::Approx(400 * 10 / 5.1).epsilon(0.03));
  CHECK(advice->gain->speedup == doctest::Approx(10 / 5.1).epsilon(0.03));
  CHECK(advice->gain->at_most);
  CHECK(advice->gain->next == "prep");
  CHECK(advice->gain->ci95_samples_per_s.low < 0.97 * advice->gain->samples_per_s);
  CHECK(advice->text.starts_with("train.py:23 augment takes 50 % of the workers' CPU time."));
  CHECK(advice->text.find("at most 7") != std::string::npos);
}

TEST_CASE("making batches of samples is named, too, and fetching by itself is no function") {
  ProfileResult profile = prep_bound();
  profile.hot = {{"default_collate", "/usr/lib/collate.py", 9, 0.4, {}}};
  CHECK(find(advice_on(profile), "slow-transform")->text.find("Give it less to copy") != std::string::npos);
  profile.hot = {{"fetching", "/usr/lib/fetch.py", 9, 0.9, {}}};
  CHECK(advice_on(profile).empty());
}

TEST_CASE("a function whose library computes in other threads too saves its share of the worker's time") {
  ProfileResult profile = prep_bound();
  // 10 ms a sample, in which three threads compute 25 ms.
  for (WorkerPoint& point : profile.prep_by_workers) point.workers_seconds_per_sample = 0.025;
  profile.host.cores = 64;
  profile.ingestion = rate(10'000);
  profile.hot = {{"cv.py:3 blur", "/job/cv.py", 3, 0.5, {}}};
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "slow-transform");
  REQUIRE(advice != nullptr);
  CHECK(advice->gain->samples_per_s == doctest::Approx(400 * 10 / 5.8).epsilon(0.03));  // 12.5 of 25 ms in three threads
  CHECK(advice->text.starts_with("cv.py:3 blur takes 50 % of the workers' CPU time."));
}

TEST_CASE("a function is worth what it saves of CPU time where the fewest workers that were measured waited for cores") {
  ProfileResult profile = prep_bound();
  profile.loader->workers = 16;
  profile.host.cores = 4;
  profile.prep_by_workers = {{16, 400, {395, 405}, 0.00001, 0.00001, 0.01}};
  profile.ingestion = rate(10'000);
  profile.hot = {{"train.py:23 augment", "/job/train.py", 23, 0.5, {}}};
  CHECK(find(advice_on(profile), "slow-transform")->gain->samples_per_s == doctest::Approx(800).epsilon(0.05));
}

TEST_CASE("nothing is said of the workers' functions where steps do not wait for them") {
  ProfileResult profile = accelerator_bound();
  profile.hot = {{"train.py:23 augment", "/job/train.py", 23, 0.9, Interval{0.85, 0.95}}};
  CHECK(advice_on(profile).empty());
}

TEST_CASE("workers whose own threads use several cores each are told to use one") {
  ProfileResult profile = prep_bound();
  profile.host.cores = 4;
  profile.prep_by_workers = {{1, 100, {98, 102}, 0.0001, 0.0002, 0.02}, {4, 200, {195, 205}, 0.0001, 0.0002, 0.02}};
  profile.prep = rate(200);
  profile.runs[0].samples_per_s = 200;
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "threads-of-workers");
  REQUIRE(advice != nullptr);
  CHECK(advice->text.starts_with("Each worker computes on 2.0 cores at once, and 4 workers ask for 8.0 of 4 cores."));
  // On cores enough for all of them, it is no mistake.
  profile.host.cores = 16;
  CHECK(find(advice_on(profile), "threads-of-workers") == nullptr);
}

TEST_CASE("beside other programs, what takes the workers' CPU time is named without a rate that is too uncertain to promise") {
  ProfileResult profile = prep_bound();
  profile.host.cores = 4;
  profile.runs[0].cores_used = 2;
  for (WorkerPoint& point : profile.prep_by_workers) point.ci95_samples_per_s = {0.2 * point.samples_per_s, 1.8 * point.samples_per_s};
  profile.hot = {{"train.py:23 augment", "/job/train.py", 23, 0.5, {}}};
  CHECK(find(advice_on(profile), "slow-transform") == nullptr);
  profile.runs[0].others = BackgroundLoad{0.5, {{17, "make", 0.5}}};
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "slow-transform");
  REQUIRE(advice != nullptr);
  CHECK(!advice->gain);
  CHECK(advice->text.ends_with("Beside the other programs on this machine, what it would give is not predicted."));
}

TEST_CASE("other programs are named where they take cores that the workers wait for") {
  ProfileResult profile = prep_bound();
  profile.host.cores = 4;
  profile.runs[0].cores_used = 2;
  profile.runs[0].others = BackgroundLoad{0.5, {{17, "make", 0.3}, {18, "cc1plus", 0.2}}};
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "other-processes");
  REQUIRE(advice != nullptr);
  CHECK(advice->text.starts_with("Other programs take 50 % of the CPU (make 30 %, cc1plus 20 %)"));
  profile.runs[0].others->cpu_fraction = 0.05;
  CHECK(find(advice_on(profile), "other-processes") == nullptr);
  // On cores enough for both they disturb nothing, and nor do they where the loader is fast enough.
  profile.runs[0].others->cpu_fraction = 0.5;
  profile.host.cores = 16;
  CHECK(find(advice_on(profile), "other-processes") == nullptr);
  // Workers that hardly compute would not be faster with all cores.
  ProfileResult network = prep_bound();
  network.host.cores = 16;
  network.runs[0].cores_used = 0.7;
  network.runs[0].others = BackgroundLoad{0.875, {}};
  for (WorkerPoint& point : network.prep_by_workers) point.workers_seconds_per_sample = 0.0002;
  CHECK(find(advice_on(network), "other-processes") == nullptr);
  CHECK(rates_of(training_model(network), {}).detail == "latency");
  network.runs[0].others->cpu_fraction = 0.95;
  CHECK(find(advice_on(network), "other-processes") == nullptr);
  ProfileResult fast = accelerator_bound();
  fast.runs[0].cores_used = 8;
  fast.runs[0].others = BackgroundLoad{0.5, {}};
  CHECK(find(advice_on(fast), "other-processes") == nullptr);
}

TEST_CASE("workers that start anew for short epochs are told to persist") {
  ProfileResult profile = accelerator_bound();
  profile.loader->persistent = false;
  BetweenEpochsRecord between;
  between.epochs = 3;
  between.seconds = 1.1;
  between.data_seconds = 1.02;
  between.steps = 100;
  profile.waits->between_epochs = between;
  std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "persistent-workers");
  REQUIRE(advice != nullptr);
  // An epoch of 5.1 s waits 1.02 s, of which the first batches of all workers take some 20 ms all the same.
  REQUIRE(advice->gain);
  CHECK(advice->gain->speedup == doctest::Approx(5.1 / 4.1).epsilon(0.01));
  CHECK(advice->text.starts_with("train.py:41 persistent_workers=True:"));
  profile.waits->between_epochs->steps = 10'000;
  CHECK(find(advice_on(profile), "persistent-workers") == nullptr);
  profile.waits->between_epochs->steps = 100;
  profile.loader->style = LoaderRecord::Style::iterable;  // It may fill a buffer in that time.
  CHECK(find(advice_on(profile), "persistent-workers") == nullptr);
  profile.loader->style = LoaderRecord::Style::map;
  profile.loader->persistent = true;
  CHECK(find(advice_on(profile), "persistent-workers") == nullptr);
}

TEST_CASE("what lies between the steps is advice where leaving it out gains something") {
  ProfileResult profile = accelerator_bound();
  profile.waits->compute.seconds_per_step = 0.03;
  profile.waits->outside.seconds_per_step = 0.01;
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "outside-of-steps");
  REQUIRE(advice != nullptr);
  CHECK(advice->gain->speedup == doctest::Approx(4 / 3.0).epsilon(0.01));
  CHECK(advice->text.starts_with("What the script does between its steps"));
  profile.waits->validation.seconds_per_step = 0.008;
  CHECK(find(advice_on(profile), "outside-of-steps")->text.starts_with("What lies between its steps, validation above all, takes 10 ms"));
  // Where the loader is late, steps would wait for it instead.
  ProfileResult late = prep_bound();
  late.waits->outside.seconds_per_step = 0.01;
  CHECK(find(advice_on(late), "outside-of-steps") == nullptr);
}

TEST_CASE("of several ranks, all wait for the one that does the most between its steps") {
  ProfileResult profile = accelerator_bound();
  WaitsRecord& waits = *profile.waits;
  waits.compute.seconds_per_step = 0.024;
  waits.outside.seconds_per_step = 0.004;
  for (const int rank : {0, 1, 2, 3}) {
    RankWaitsRecord& each = waits.by_rank.emplace_back();
    each.rank = rank;
    each.outside.seconds_per_step = rank == 1 ? 0.016 : 0;
  }
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const advice = find(list, "outside-of-steps");
  REQUIRE(advice != nullptr);
  CHECK(advice->gain->speedup == doctest::Approx(40 / 24.0).epsilon(0.03));
  CHECK(advice->text.find(" of rank 1 takes 16 ms of each step's 40 ms") != std::string::npos);
}

TEST_CASE("data that comes from storage is advised to be kept in memory, and small files to be packed") {
  ProfileResult profile = storage_bound(Bytes{2} << 30);
  std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const memory = find(list, "keep-in-memory");
  REQUIRE(memory != nullptr);
  CHECK(memory->gain->samples_per_s > 900);
  CHECK(list.front().code == "keep-in-memory");
  CHECK(find(list, "small-files") != nullptr);
  profile.reads->files = 1;  // one that is opened for each sample
  CHECK(find(advice_on(profile), "small-files") == nullptr);
  profile.reads->files = 1000;
  profile.reads->opens = 10;  // shards
  CHECK(find(advice_on(profile), "small-files") == nullptr);
  profile.reads->page_cache_bytes = Bytes{20} << 30;  // everything fits
  CHECK(find(advice_on(profile), "keep-in-memory") == nullptr);
}

TEST_CASE("what shards would give is not predicted, and a fixed order is told where a random one finds more in memory") {
  ProfileResult profile = storage_bound(Bytes{6} << 30);
  ReadsRecord& reads = *profile.reads;
  CHECK_FALSE(find(advice_on(profile), "small-files")->gain);
  CHECK(find(advice_on(profile), "order-against-cache") == nullptr);
  reads.ordered_fraction = 0.98;
  const std::vector<AdviceRecord> list = advice_on(profile);
  const AdviceRecord* const order = find(list, "order-against-cache");
  REQUIRE(order != nullptr);
  CHECK(order->gain->speedup > 1.2);
  CHECK(order->text.find("finds 0 % of an epoch's 10 GiB again") != std::string::npos);
  // Storage whose rate scatters is the same in both orders.
  profile.storage->ci95_samples_per_s = {profile.storage->samples_per_s * 0.6, profile.storage->samples_per_s * 1.4};
  CHECK(find(advice_on(profile), "order-against-cache") != nullptr);
  reads.page_cache_bytes = Bytes{20} << 30;  // everything fits
  CHECK(find(advice_on(profile), "order-against-cache") == nullptr);
}

TEST_CASE("batches for a GPU are told to be pinned, and those that the CPU trains on are not") {
  ProfileResult profile = accelerator_bound();
  profile.loader->pin_memory = false;
  CHECK(find(advice_on(profile), "pin-memory") == nullptr);
  profile.host.accelerator_shares_cores = false;
  const std::vector<AdviceRecord> list = advice_on(profile);
  REQUIRE(find(list, "pin-memory") != nullptr);
  CHECK_FALSE(find(list, "pin-memory")->gain);
  ProfileResult late = prep_bound();
  late.loader->pin_memory = late.host.accelerator_shares_cores = false;
  CHECK(find(advice_on(late), "pin-memory") == nullptr);
}

}  // namespace dsanalyze

TEST_CASE("other workers are worth it where they gain over whole epochs, in each of which they start") {
  ProfileResult profile = prep_bound();
  profile.loader->persistent = false;
  profile.prep_by_workers = {{4, 400, {395, 405}}, {8, 800, {790, 810}}};
  profile.prep_by_workers.back().start_seconds = 0.5;
  FixRecord fix;
  fix.workers = 8;
  fix.samples_per_s = 800;
  CHECK(gains_over_epochs(profile, fix));
  BetweenEpochsRecord& between = profile.waits->between_epochs.emplace();
  // Half a second to start costs an epoch more than half of its steps' time saves, or less.
  for (const double epoch_seconds : {0.9, 9.0}) {
    between.steps = static_cast<std::uint64_t>(epoch_seconds / profile.waits->step_seconds);
    CHECK(gains_over_epochs(profile, fix) == (epoch_seconds > 1));
  }
  profile.loader->persistent = true;
  between.steps = 1;
  CHECK(gains_over_epochs(profile, fix));
}

TEST_CASE("no more workers are advised than an epoch has batches") {
  ProfileResult profile = prep_bound();
  profile.loader->batches = 5;
  const auto fix = fix_of(training_model(profile));
  CHECK((!fix || fix->workers <= 5));
  profile.prep_by_workers = {{4, 400, {395, 405}}, {8, 800, {790, 810}}};
  CHECK_FALSE(profile.better_workers());
  CHECK(fix_of(training_model(profile)).value_or(FixRecord{}).workers <= 5);
  CHECK(training_model(profile).most_workers == 5);
}
