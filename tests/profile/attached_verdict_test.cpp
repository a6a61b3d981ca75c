#include "profile/attached/attached_profile.hpp"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "../base/texts.hpp"
#include "attached_rig.hpp"
#include "profile/attached/attached_parts.hpp"
#include "profile/attached/own_prep.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("a training that waits for storage only as found is bound by storage") {
  LaunchedTraining launched = prep_bound();
  launched.training.phases[AttachPhase::full] = phase_of(0.030, 0.010);
  launched.training.phases[AttachPhase::full].after->storage_bytes = 900'000'000;
  launched.training.phases[AttachPhase::cached] = phase_of(0.0005, 0.010);
  launched.training.drains = {drain_of(2, 0.005)};
  const ProfileResult result = profile_of(launched);
  CHECK(result.bottleneck->detail == "storage");
  CHECK(result.stalls->fetch.fraction == doctest::Approx(0.74).epsilon(0.02));
}

TEST_CASE("a few pages from storage, or reads that nothing waited for, make no storage bottleneck") {
  LaunchedTraining launched = prep_bound();
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full] = phase_of(0.030, 0.010);
  launched.training.phases[AttachPhase::cached] = phase_of(0.0005, 0.010);
  launched.training.drains = {drain_of(2, 0.005)};
  full.after->requested_bytes = 1'000'000;
  full.after->storage_bytes = 84 * 1024;
  CHECK(profile_of(launched).bottleneck->detail != "storage");
  full.after->storage_bytes = full.after->requested_bytes = 900'000'000;
  CHECK(profile_of(launched).bottleneck->detail == "storage");
  full.before->storage_wait_seconds = 0;
  full.after->storage_wait_seconds = 0.01;
  CHECK(profile_of(launched).bottleneck->detail != "storage");
}

TEST_CASE("where the training was not measured with its data in memory, storage is not named, and the finding says why") {
  LaunchedTraining launched = prep_bound();
  AttachedTraining& training = launched.training;
  training.notes.push_back({"stream-goes-on", ""});
  training.phases.erase(AttachPhase::cached);
  training.phases[AttachPhase::full].before->storage_bytes = 0;
  training.phases[AttachPhase::full].after->storage_bytes = 1'000'000'000;
  const ProfileResult result = profile_of(launched);
  CHECK_FALSE(result.stalls);
  REQUIRE(result.bottleneck);
  CHECK(result.bottleneck->detail == "prep");
  CHECK(says(finding_of(result, "storage-not-separable").message, "not separable"));
  CHECK_FALSE(finds(result, "phases-missing"));
}

TEST_CASE("workers that start in each epoch are the bottleneck where that takes more than the steps lose") {
  LaunchedTraining launched = prep_bound();
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.pass_steps = 50;  // Of 20 ms, half of which are waiting for prep.
  full.gaps[0] = {{0, to_nanoseconds(0.5), 0.2, 0, 0.1}};
  CHECK(profile_of(launched).bottleneck->detail == "prep");
  full.gaps[0] = {{0, to_nanoseconds(3), 3, 0, 0.04}};
  const ProfileResult result = profile_of(launched);
  CHECK(result.bottleneck->detail == "starting");
  CHECK(result.bottleneck->confident);
  CHECK(says(result.bottleneck->reason, "take 75 % of the training's time"));
  launched.training.loader->workers = 0;
  CHECK(profile_of(launched).bottleneck->detail != "starting");
}

TEST_CASE("the wait for an epoch's first batch is shared among the epoch's steps, of each phase") {
  LaunchedTraining launched = prep_bound();
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  const double before = profile_of(launched).run("full")->samples_per_s;
  full.first_waits[0] = {0.1, 0.3};
  full.pass_steps = 10;
  const ProfileResult result = profile_of(launched);
  CHECK(1 / result.run("full")->samples_per_s == doctest::Approx(1 / before + 0.02 / samples_a_step));
  CHECK(result.waits->data.seconds_per_step == doctest::Approx(0.03).epsilon(0.01));
  CHECK(result.waits->unexplained.seconds_per_step == doctest::Approx(0));
}

TEST_CASE("a rate that changes while it is measured is told, and takes the trust") {
  LaunchedTraining launched = prep_bound();
  CHECK_FALSE(finds(profile_of(launched), "rate-changed"));
  std::vector<StepWindow>& windows = launched.training.phases[AttachPhase::full].by_rank[0];
  for (std::size_t i = 0; i < windows.size() / 2; ++i) windows[i].end = windows[i].begin + (windows[i].end - windows[i].begin) * 3 / 2;
  const ProfileResult result = profile_of(launched);
  CHECK(says(finding_of(result, "rate-changed").message, "in the phase full the rate went from"));
  CHECK_FALSE(result.trusted);
}

TEST_CASE("steps that go faster where no clock is read in them take the trust") {
  for (const double faster : {1.0, 0.9}) {
    LaunchedTraining launched = prep_bound();
    std::vector<StepWindow>& windows = launched.training.phases[AttachPhase::full].by_rank[0];
    REQUIRE(windows.size() >= 6);
    for (std::size_t i = 1; i < windows.size(); i += 2) {
      StepWindow counted;
      counted.begin = windows[i].begin;
      counted.end = counted.begin + static_cast<Nanoseconds>(faster * static_cast<double>(windows[i].end - windows[i].begin));
      counted.samples = windows[i].samples;
      windows[i] = counted;
    }
    const ProfileResult result = profile_of(launched);
    CHECK(finds(result, "clocks-change-rate") == (faster < 1));
    CHECK(result.bottleneck->confident == (faster == 1));
    CHECK(result.waits->unexplained.seconds_per_step == doctest::Approx(0));
  }
}

TEST_CASE("where nothing was read from storage, storage is not the bottleneck") {
  LaunchedTraining launched = prep_bound();
  launched.training.phases[AttachPhase::full] = phase_of(0.030, 0.010);
  launched.training.phases[AttachPhase::cached] = phase_of(0.0005, 0.010);
  const ProfileResult result = profile_of(launched);
  CHECK(result.bottleneck->detail == "prep");
  CHECK(result.stalls->fetch.fraction == doctest::Approx(0));
  CHECK(result.stalls->prep.fraction == doctest::Approx(0.75).epsilon(0.02));
}

TEST_CASE("a loader without workers that takes next to nothing of a step is not the bottleneck, whatever workers would make of it") {
  LaunchedTraining launched = prep_bound();
  AttachedTraining& training = launched.training;
  training.loader->workers = 0;
  training.phases[AttachPhase::full] = training.phases[AttachPhase::cached] = phase_of(0.001, 0.500);
  training.phases[AttachPhase::synthetic] = phase_of(0, 0.460);  // The machine was faster then.
  training.drains = {drain_of(0, 0.001), drain_of(2, 0.0005)};
  CHECK(profile_of(launched).bottleneck->detail == "accelerator");
}

TEST_CASE("a loader without workers that takes a part of each step is the bottleneck, however fast it is alone") {
  LaunchedTraining launched = prep_bound();
  launched.training.loader->workers = 0;
  launched.training.drains = {drain_of(0, 0.005)};
  CHECK(profile_of(launched).bottleneck->detail == "prep");
}

TEST_CASE("workers are asked for only where they were measured to make the training faster") {
  LaunchedTraining launched = prep_bound();
  launched.training.loader->workers = 0;
  // A batch takes 0.5 ms to prepare and 10 ms to train on; what workers hand over takes longer.
  launched.training.phases[AttachPhase::full] = phase_of(0.0005, 0.010);
  launched.training.drains = {drain_of(0, 0.0005), drain_of(1, 0.004), drain_of(2, 0.003)};
  CHECK_FALSE(profile_of(launched).better_workers());
  CHECK(profile_of(launched).bottleneck->detail == "accelerator");
  // It takes as long to prepare as to train on: two workers keep up, and so do four.
  launched.training.phases[AttachPhase::full] = phase_of(0.010, 0.010);
  launched.training.drains = {drain_of(0, 0.010), drain_of(1, 0.012), drain_of(2, 0.006), drain_of(4, 0.003)};
  CHECK(profile_of(launched).better_workers()->workers == 2);
  CHECK(profile_of(launched).bottleneck->detail == "prep");
  // What differs by less than it varies is no reason to change anything.
  launched.training.loader->workers = 2;
  launched.training.drains = {drain_of(2, 0.020), drain_of(4, 0.017)};
  CHECK(profile_of(launched).better_workers()->workers == 4);
  std::vector<Nanoseconds>& delivered = launched.training.drains.back().by_rank[0].delivered;
  Nanoseconds at = 0;
  for (std::size_t i = 0; i < delivered.size(); ++i) delivered[i] = at += to_nanoseconds(i % 70 == 30 ? 0.5 : 0.001);
  CHECK(profile_of(launched).prep_by_workers.back().samples_per_s > 1.1 * profile_of(launched).prep->samples_per_s);
  CHECK_FALSE(profile_of(launched).better_workers());
}

TEST_CASE("what a step spends beside computing is told before computing, where prep keeps up") {
  LaunchedTraining launched = prep_bound();
  launched.training.drains = {drain_of(2, 0.005)};
  const auto spends = [&](double outside) {
    launched.training.phases[AttachPhase::full] = launched.training.phases[AttachPhase::cached] = phase_of(0.0001, 0.010, outside);
    launched.training.phases[AttachPhase::synthetic] = phase_of(0, 0.010, outside);
  };
  spends(0.003);
  CHECK(profile_of(launched).bottleneck->detail == "accelerator");
  spends(0.030);
  CHECK(profile_of(launched).bottleneck->detail == "outside");
  CHECK(profile_of(launched).bottleneck->confident);
  launched.training.phases[AttachPhase::full] = phase_of(0.015, 0.010);
  launched.training.phases[AttachPhase::synthetic] = phase_of(0, 0.010);
  CHECK(profile_of(launched).bottleneck->detail == "delivery");
}

TEST_CASE("workers that hardly use the CPU while they prepare wait for something else") {
  LaunchedTraining launched = prep_bound();
  launched.training.drains.front().after->cpu_seconds = 0.4;  // of 10 s and one core
  CHECK(profile_of(launched).bottleneck->detail == "latency");
  CHECK(says(profile_of(launched).bottleneck->reason, "4 % of their cores"));
  launched.training.drains.front().after->cpu_seconds = 9;
  CHECK(profile_of(launched).bottleneck->detail == "prep");
}

TEST_CASE("what other threads of a training compute while its loader is drained is none of the workers'") {
  LaunchedTraining launched = prep_bound();
  DrainMeasurement& drain = launched.training.drains.front();
  drain.after->cpu_seconds = 9;  // of 10 s and one core
  drain.by_rank[0].cpu = {1000, 0.01, 0.01, 0.02};
  CHECK(profile_of(launched).bottleneck->detail == "latency");
}

TEST_CASE("where other programs take the cores while prep is measured, and not from the training as found, the bottleneck is inconclusive") {
  const auto beside_others = [](double others_full, double others_prep) {
    LaunchedTraining launched = prep_bound();
    const auto take = [](TreeUse& before, TreeUse& after, double own_cores, double others_cores) {
      before.machine_cpu_seconds = 0;
      before.cpu_seconds = 0;
      after.cpu_seconds = own_cores * to_seconds(after.at - before.at);
      after.machine_cpu_seconds = (own_cores + others_cores) * to_seconds(after.at - before.at) + 0.1;
    };
    PhaseMeasurement& full = launched.training.phases.at(AttachPhase::full);
    take(*full.before, *full.after, 4 - others_full, others_full);
    for (DrainMeasurement& drain : launched.training.drains) take(*drain.before, *drain.after, 4 - others_prep, others_prep);
    HostFacts host;
    host.cpus_allowed = {0, 1, 2, 3};
    host.cores_usable = 4;
    return profile_of(launched, host);
  };
  const ProfileResult alike = beside_others(1, 1.2);
  CHECK_FALSE(alike.finds("prep-beside-others"));
  CHECK(alike.bottleneck->confident);
  CHECK(alike.run("prep")->others->cpu_fraction == doctest::Approx(0.3).epsilon(0.05));
  for (const auto& [full, prep] : {std::pair{0.0, 1.5}, std::pair{1.5, 0.0}}) {
    const ProfileResult disturbed = beside_others(full, prep);
    CHECK(disturbed.finds("prep-beside-others"));
    CHECK_FALSE(disturbed.bottleneck->confident);
    CHECK(says(disturbed.bottleneck->reason, "other programs took more of the cores"));
  }
}

TEST_CASE("prep that was measured on data from storage is not told apart from storage") {
  LaunchedTraining launched = prep_bound();
  launched.training.drains.front().after->storage_bytes = 990'000'000;
  launched.training.drains.front().before->storage_wait_seconds = 0;
  launched.training.drains.front().after->storage_wait_seconds = 8;
  const ProfileResult result = profile_of(launched);
  CHECK(result.bottleneck->detail == "storage");
  CHECK_FALSE(result.bottleneck->confident);
  CHECK(says(result.bottleneck->reason, "cannot be told apart"));
}

TEST_CASE("ranks in step get their number times what the slowest loader delivers") {
  DrainMeasurement drain = drain_of(2, 0.020);
  drain.by_rank[1] = drain_of(2, 0.005).by_rank[0];
  CHECK(stretches_of(drain).front().rate() == doctest::Approx(2 * stretches_of(drain_of(2, 0.020)).front().rate()));
}

TEST_CASE("what each rank's loader supplies when it is drained is known of it") {
  LaunchedTraining launched = prep_bound();
  launched.training.ranks[1].pid = 6;
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank[1] = full.by_rank[0];
  launched.training.drains.front().by_rank[1] = drain_of(2, 0.005).by_rank[0];
  const ProfileResult result = profile_of(launched);
  REQUIRE(result.waits->by_rank.size() == 2);
  CHECK(*result.waits->by_rank[0].supply_seconds_per_step == doctest::Approx(0.020).epsilon(0.01));
  CHECK(*result.waits->by_rank[1].supply_seconds_per_step == doctest::Approx(0.005).epsilon(0.01));
}

TEST_CASE("a rank whose loader delays the others is named") {
  LaunchedTraining launched = prep_bound();
  launched.training.ranks[1].pid = 6;
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank.clear();
  for (int i = 0; i < 8; ++i) {
    full.by_rank[0].push_back(window_of(0.001, 0.019, 0, 0.009));
    full.by_rank[1].push_back(window_of(0.010, 0.010));
  }
  const ProfileResult result = profile_of(launched);
  CHECK(result.waits->delaying_rank == 1);
  REQUIRE(result.waits->by_rank.size() == 2);
  CHECK(result.waits->by_rank[0].ranks.seconds_per_step == doctest::Approx(0.009));
}

TEST_CASE("where all ranks lack data, and now this one and now that one comes last, none of them is the bottleneck") {
  LaunchedTraining launched = prep_bound();
  launched.training.ranks[1].pid = 6;
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank.clear();
  for (int i = 0; i < 8; ++i) {
    full.by_rank[0].push_back(window_of(0.066, 0.017, 0, 0.009));
    full.by_rank[1].push_back(window_of(0.046, 0.017, 0, 0.029));
  }
  CHECK_FALSE(profile_of(launched).waits->delaying_rank);
}

TEST_CASE("a rank that computes longer than the others, or is longer outside of its steps, is named with that") {
  for (const auto& [slow, why] : {std::pair{window_of(0, 0.040), RankDelay::compute}, {window_of(0, 0.010, 0.030), RankDelay::outside}}) {
    LaunchedTraining launched = prep_bound();
    launched.training.ranks[1].pid = 6;
    PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
    full.by_rank.clear();
    for (int i = 0; i < 8; ++i) {
      full.by_rank[0].push_back(window_of(0, 0.040, 0, 0.030));
      full.by_rank[1].push_back(slow);
    }
    const ProfileResult result = profile_of(launched);
    REQUIRE(result.waits->delaying_rank == 1);
    CHECK(delay_of(result.waits->by_rank, 1) == why);
  }
}

TEST_CASE("the cores of a training are those that its command chose, unless it used more") {
  LaunchedTraining launched = prep_bound();
  launched.training.ranks[1].pid = 6;
  launched.training.cpus = {{0, {0, 1, 2, 3}}, {1, {0, 1}}};
  launched.training.phases[AttachPhase::full].by_rank[1] = launched.training.phases[AttachPhase::full].by_rank[0];
  HostFacts host;
  host.cpus_allowed = {0, 1, 2, 3, 4, 5, 6, 7};
  host.cores_usable = 8;
  const auto cores = [&] {
    const ProfileResult result = attached_profile(launched, {}, host);
    CHECK(result.host.cores == 8);  // which other programs may use, too
    return result.launch->cores.value_or(8);
  };
  CHECK(cores() == 4);
  const ProfileResult result = profile_of(launched);
  CHECK(result.waits->by_rank[0].cores == 4);
  CHECK(result.waits->by_rank[1].cpus == "0-1");
  launched.training.cpus = {{0, {2}}, {1, {2, 3}}};
  CHECK(cores() == 2);
  PhaseMeasurement& full = launched.training.phases.at(AttachPhase::full);
  full.after->cpu_seconds = full.before->cpu_seconds + 2.6 * to_seconds(full.after->at - full.before->at);
  CHECK(cores() == 3);
  launched.training.cpus[1].clear();  // not known
  CHECK(cores() == 8);
}

TEST_CASE("numbers of CPUs are told as ranges") {
  CHECK(cpus_text({}) == "");
  CHECK(cpus_text({3}) == "3");
  CHECK(cpus_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
}

TEST_CASE("what the script does beside its steps is told by line, of the rank where it takes longest") {
  LaunchedTraining launched = prep_bound();
  const auto spent = [](ScriptCostRecord::What what, int line, double seconds, double waited) {
    SpentTime place;
    place.what = what;
    place.file = "/job/train.py";
    place.line = line;
    place.count = 4;
    place.seconds = seconds;
    place.waited_seconds = waited;
    return place;
  };
  launched.training.beside_steps[0] = {
      10, 1000, {spent(ScriptCostRecord::What::save, 88, 2, 0), spent(ScriptCostRecord::What::validation, 20, 4, 3)}};
  launched.training.beside_steps[1] = {10, 1000, {spent(ScriptCostRecord::What::save, 88, 1, 0), spent(ScriptCostRecord::What::save, 90, 0.05, 0)}};
  const std::vector<ScriptCostRecord> costs = profile_of(launched).script_costs;
  REQUIRE(costs.size() == 2);
  CHECK(costs[0].line == 20);
  CHECK(costs[0].fraction == doctest::Approx(0.4));
  CHECK(costs[0].waited_fraction == doctest::Approx(0.75));
  CHECK(costs[0].seconds_each == doctest::Approx(1));
  CHECK(costs[1].fraction == doctest::Approx(0.2));
  CHECK(costs[1].training_samples_per_s == doctest::Approx(200));
}

TEST_CASE("dsanalyze.Loader fits where each sample is an image file of its own that is cropped to a square, and little is done besides") {
  LaunchedTraining launched = prep_bound();
  ProfileResult result = profile_of(launched);
  launched.training.picture = {{224, 224}};
  result.reads.emplace();
  result.reads->samples = result.reads->opens = result.reads->files = 1000;
  result.hot = {{"pil_loader", "", 0, 0.7, {}}, {"RandomResizedCrop", "", 0, 0.25, {}}, {"train.py:9 noise", "", 0, 0.05, {}}};
  CHECK(own_loader_fits(launched.training, result));
  const auto otherwise = [&](const auto& change) {
    AttachedTraining training = launched.training;
    ProfileResult changed = result;
    change(training, changed);
    return own_loader_fits(training, changed);
  };
  CHECK_FALSE(otherwise([](AttachedTraining& training, ProfileResult&) { training.picture.reset(); }));
  CHECK_FALSE(otherwise([](AttachedTraining& training, ProfileResult&) { training.picture = {{224, 320}}; }));
  CHECK_FALSE(otherwise([](AttachedTraining&, ProfileResult& changed) { changed.reads->files = changed.reads->opens = 2000; }));  // a mask each
  CHECK_FALSE(otherwise([](AttachedTraining&, ProfileResult& changed) { changed.reads->files = 8; }));                            // shards
  CHECK_FALSE(otherwise([](AttachedTraining&, ProfileResult& changed) { changed.hot[2].fraction = 0.3; }));               // work of the script's own
  CHECK_FALSE(otherwise([](AttachedTraining&, ProfileResult& changed) { changed.hot.erase(changed.hot.begin() + 1); }));  // no crop
  CHECK_FALSE(otherwise([](AttachedTraining&, ProfileResult& changed) { changed.loader->style = LoaderRecord::Style::iterable; }));
}

TEST_CASE("where a thread of the script fetches batches, what steps wait for is not told, and the verdict rests on rates") {
  LaunchedTraining launched = prep_bound();
  launched.training.notes.push_back({"loader-in-thread", "The script fetches its batches in a thread of its own."});
  launched.training.loader->workers = 0;  // The thread prepares while the training computes.
  launched.training.drains = {drain_of(0, 0.020)};
  ProfileResult result = profile_of(launched);
  CHECK_FALSE(result.waits);
  CHECK(result.run("full")->stall_p99_seconds == 0);
  REQUIRE(result.bottleneck);
  CHECK(result.bottleneck->detail == "prep");
  CHECK(says(result.bottleneck->reason, "of the time, 50 % is compute, 50 % waiting for prep"));
  // Prep is fast enough, and the training as found reaches what it can take.
  launched.training.drains = {drain_of(0, 0.005)};
  launched.training.phases[AttachPhase::full] = phase_of(0.0001, 0.010);
  launched.training.phases[AttachPhase::cached] = phase_of(0.0001, 0.010);
  result = profile_of(launched);
  REQUIRE(result.bottleneck);
  CHECK(result.bottleneck->detail == "accelerator");
}

TEST_CASE("where a thread of the script fetches batches and prep keeps up, a rate below G is delivery, or inconclusive without its parts") {
  LaunchedTraining launched = prep_bound();
  launched.training.notes.push_back({"loader-in-thread", "The script fetches its batches in a thread of its own."});
  launched.training.drains = {drain_of(2, 0.005)};
  CHECK(profile_of(launched).bottleneck->detail == "delivery");
  launched.training.notes.push_back({"stream-goes-on", ""});
  launched.training.phases.erase(AttachPhase::cached);
  launched.training.phases[AttachPhase::full].before->storage_bytes = 0;
  launched.training.phases[AttachPhase::full].after->storage_bytes = 1'000'000'000;
  const ProfileResult result = profile_of(launched);
  CHECK_FALSE(result.stalls);
  CHECK_FALSE(result.bottleneck->confident);
  CHECK(says(result.bottleneck->reason, "what else steps wait for is not seen: inconclusive"));
}

TEST_CASE("G of fewer batches than 16 is told") {
  LaunchedTraining launched = prep_bound();
  CHECK_FALSE(finds(profile_of(launched), "few-kept-batches"));
  launched.training.phases[AttachPhase::synthetic].kept_batches = 14;
  CHECK(says(finding_of(profile_of(launched), "few-kept-batches").message, "with 14 batches that were handed out in turn, not 16: more did not fit"));
}

TEST_CASE("ranks elsewhere are said of a real run alone") {
  LaunchedTraining launched = prep_bound();
  launched.training.ranks[0].world = 4;
  launched.training.ranks[0].distributed = true;
  CHECK_FALSE(finds(profile_of(launched), "ranks-elsewhere"));
  LaunchSettings real;
  real.mode = AttachMode::passive;
  CHECK(says(finding_of(attached_profile(launched, real, HostFacts{}), "ranks-elsewhere").message, "4 ranks, and 1 of them is a process"));
}
