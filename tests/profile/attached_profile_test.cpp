#include "profile/attached/attached_profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "../base/texts.hpp"
#include "attached_rig.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("a training that waits for prep: G, P, the parts of a step and the stall follow from its phases") {
  const ProfileResult result = profile_of(prep_bound());
  CHECK(result.ingestion->samples_per_s == doctest::Approx(3200).epsilon(0.01));
  CHECK(result.prep->samples_per_s == doctest::Approx(1600).epsilon(0.01));
  CHECK(result.prep_by_workers.size() == 2);
  CHECK(result.prep_by_workers[0].workers == 1);
  CHECK(*result.prep_by_workers[0].main_thread_seconds_per_sample == doctest::Approx(0.0001));
  CHECK(result.waits->data.fraction == doctest::Approx(0.5).epsilon(0.01));
  CHECK(result.waits->unexplained.fraction == doctest::Approx(0));
  CHECK(result.stalls->prep.fraction == doctest::Approx(0.5).epsilon(0.01));
  CHECK(result.stalls->fetch.fraction == doctest::Approx(0).epsilon(0.01));
  CHECK(result.bottleneck->detail == "prep");
  CHECK(result.bottleneck->confident);
  CHECK(result.trusted);
  CHECK(result.run("prep")->storage_proof == StorageProof::proved);
}

TEST_CASE("what drains differ by from one to the next is in the interval of each number of workers, as far as it had few of them") {
  const auto half_of = [](double faster, std::size_t repeated) {
    LaunchedTraining launched = prep_bound();
    const DrainMeasurement first = launched.training.drains.front();
    for (std::size_t i = 0; i < repeated; ++i) {
      DrainMeasurement next = first;
      for (auto& [rank, drained] : next.by_rank)
        for (double& samples : drained.samples) samples *= i % 2 == 0 ? faster : 1;
      launched.training.further_drains.push_back(next);
    }
    std::map<int, double> half;
    for (const WorkerPoint& point : profile_of(launched).prep_by_workers)
      half[point.workers] = (point.ci95_samples_per_s.high - point.ci95_samples_per_s.low) / 2 / point.samples_per_s;
    return std::pair(half.at(first.workers), half.size() > 1 ? half.at(first.workers == 1 ? 2 : 1) : 0.0);
  };
  CHECK(half_of(1, 3).second < 0.02);
  CHECK(half_of(1.2, 1).second < 0.02);  // Two say too little of that.
  const auto [own, other] = half_of(1.2, 3);
  CHECK(other > 0.25);  // A standard deviation of a tenth, of four drains.
  CHECK(own < 0.75 * other);
}

TEST_CASE("tokens of a sample are told") {
  LaunchedTraining launched = prep_bound();
  CHECK_FALSE(profile_of(launched).loader->tokens_per_sample);
  launched.training.tokens_per_sample = 1024;
  CHECK(profile_of(launched).loader->tokens_per_sample == 1024);
}

TEST_CASE("an epoch has as many samples as its steps train on all ranks, whatever the dataset's length is") {
  LaunchedTraining launched = prep_bound();
  CHECK(profile_of(launched).run("full")->epoch_seconds == doctest::Approx(2).epsilon(0.01));  // 3,200 samples at 1,600 a second
  launched.training.loader->batches = 50;
  CHECK(profile_of(launched).run("full")->epoch_seconds == doctest::Approx(1).epsilon(0.01));
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank[1] = full.by_rank[0];
  CHECK(profile_of(launched).run("full")->epoch_seconds == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("a batch size that changes is told as a range, and where G has another one than the training as found") {
  LaunchedTraining launched = prep_bound();
  launched.training.loader->batch_size = 32;
  CHECK(profile_of(launched).loader->samples_per_step->least == samples_a_step);
  CHECK(profile_of(launched).loader->samples_per_step->most == samples_a_step);
  for (StepWindow& window : launched.training.phases[AttachPhase::full].by_rank[0])
    for (std::size_t i = 0; i < window.samples.size(); i += 2) window.samples[i] = 8;
  const ProfileResult changed = profile_of(launched);
  CHECK(changed.loader->samples_per_step->least == 8);
  CHECK(changed.loader->samples_per_step->most == samples_a_step);
  CHECK(says(finding_of(changed, "batch-changed").message, "20 samples on the average in the phase full, and 32"));
}

TEST_CASE("ranks whose windows differ in length train in step all the same") {
  LaunchedTraining launched = prep_bound();
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank[1] = full.by_rank[0];
  for (StepWindow& window : full.by_rank[1]) {
    for (std::vector<double>* list : {&window.wait, &window.compute, &window.outside, &window.ranks, &window.validation, &window.samples})
      list->resize(25);
    window.end /= 2;
  }
  CHECK(profile_of(launched).run("full")->samples_per_s == doctest::Approx(3200).epsilon(0.01));
}

TEST_CASE("the bottleneck is what the training loses most of its time to, against steps on batches at hand") {
  // Milliseconds a step: as found, in memory, beside workers that go on, and without them.
  struct {
    double full, cached, busy, synthetic;
    double cpu_seconds;  // In 10 s beside workers, on two cores.
    const char* bottleneck;
  } const cases[]{{10.2, 10.1, 10.0, 10, 10, "accelerator"},
                  {15, 15, 10.5, 10, 19, "prep"},
                  {15, 14.5, 14, 10, 19, "cores"},
                  {15, 14.5, 14, 10, 10, "delivery"},
                  {10.4, 10.4, 10.3, 10, 10, "accelerator"}};
  for (const auto& each : cases) {
    CAPTURE(each.full);
    LaunchedTraining launched = prep_bound();
    const auto phase = [&](AttachPhase which, double milliseconds) { launched.training.phases[which] = phase_of(0, milliseconds / 1000); };
    phase(AttachPhase::full, each.full);
    phase(AttachPhase::cached, each.cached);
    phase(AttachPhase::busy, each.busy);
    phase(AttachPhase::synthetic, each.synthetic);
    launched.training.phases[AttachPhase::busy].after->cpu_seconds = each.cpu_seconds;
    launched.training.drains = {drain_of(2, each.cached / 1000)};
    HostFacts host;
    host.cores_usable = 2;
    host.cpus_allowed = {0, 1};
    const ProfileResult result = profile_of(launched, host);
    REQUIRE(result.bottleneck);
    CHECK(result.bottleneck->detail == each.bottleneck);
    CHECK(result.bottleneck->confident);
    CHECK(result.stalls->contention->fraction == doctest::Approx((each.busy - each.synthetic) / each.full).epsilon(0.1));
    // Cores that other programs use are none that are free.
    if (std::string_view(each.bottleneck) != "delivery") continue;
    PhaseMeasurement& busy = launched.training.phases[AttachPhase::busy];
    busy.before->machine_cpu_seconds = 0;
    busy.after->machine_cpu_seconds = each.cpu_seconds + 9;
    CHECK(profile_of(launched, host).bottleneck->detail == "cores");
  }
}

TEST_CASE("a sampler is the bottleneck where choosing samples takes most of what is lost, in steps or between epochs") {
  LaunchedTraining launched = prep_bound();
  const auto detail = [&] { return profile_of(launched).bottleneck->detail; };
  const auto choose = [&](double seconds_per_step) {
    for (StepWindow& window : launched.training.phases[AttachPhase::full].by_rank[0]) window.sampling_seconds = 50 * seconds_per_step;
  };
  CHECK(detail() == "prep");
  choose(0.004);  // Of 10 ms that a step waits.
  CHECK(detail() == "prep");
  choose(0.008);
  CHECK(detail() == "sampler");
  choose(0);
  EpochGap gap{0, to_nanoseconds(8)};
  gap.sampling_seconds = 7;
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.gaps[0] = {gap};
  full.pass_steps = 100;  // Of 20 ms.
  CHECK(detail() == "sampler");
  CHECK(profile_of(launched).waits->between_epochs->sampler_seconds == doctest::Approx(7));
}

TEST_CASE("the interval of G holds that its batches are a sample of the epoch's") {
  // Sixteen batches of 32 samples, whose steps take from 5 to 20 ms, each always the same.
  const auto launched_with = [](const std::vector<double>& seconds, const std::vector<double>& samples) {
    LaunchedTraining launched = prep_bound();
    PhaseMeasurement& synthetic = launched.training.phases[AttachPhase::synthetic];
    synthetic.by_rank.clear();
    for (int i = 0; i < 8; ++i) {
      StepWindow window;
      double all = 0;
      for (std::size_t step = 0; step < 2 * seconds.size(); ++step) {
        const std::size_t batch = step % seconds.size();
        window.samples.push_back(samples[batch]);
        window.compute.push_back(seconds[batch]);
        for (auto* list : {
                 &window.wait,
                 &window.outside,
                 &window.ranks,
                 &window.validation,
             })
          list->push_back(0);
        all += seconds[batch];
      }
      window.end = to_nanoseconds(all);
      synthetic.by_rank[0].push_back(std::move(window));
    }
    launched.training.device.cuda = false;
    return launched;
  };
  std::vector<double> seconds(16);
  std::vector<double> samples(16, samples_a_step);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = 0.005 + 0.001 * static_cast<double>(i);
  const RateRecord differing = *profile_of(launched_with(seconds, samples)).ingestion;
  CHECK(differing.samples_per_s == doctest::Approx(samples_a_step / 0.0125));
  // The standard error of a mean of 16 of these steps is 9.5 % of it, and Student's t for them is 2.13.
  CHECK(differing.ci95_samples_per_s.low == doctest::Approx(differing.samples_per_s * (1 - 0.203)).epsilon(0.005));
  CHECK(differing.ci95_samples_per_s.high == doctest::Approx(differing.samples_per_s * (1 + 0.203)).epsilon(0.005));
  // What the process takes for each of them says nothing of a device.
  LaunchedTraining on_device = launched_with(seconds, samples);
  on_device.training.device.cuda = true;
  CHECK(profile_of(on_device).ingestion->ci95_samples_per_s.high == doctest::Approx(differing.samples_per_s));
  // Where a batch's step is as long as its samples, G is the same whichever batches there are.
  for (std::size_t i = 0; i < seconds.size(); ++i) samples[i] = 32000 * seconds[i];
  const RateRecord in_proportion = *profile_of(launched_with(seconds, samples)).ingestion;
  CHECK(in_proportion.ci95_samples_per_s.low == doctest::Approx(in_proportion.samples_per_s));
  // Batches that do not differ add nothing to what their steps vary by.
  seconds.assign(16, 0.010);
  samples.assign(16, samples_a_step);
  const RateRecord alike = *profile_of(launched_with(seconds, samples)).ingestion;
  CHECK(alike.ci95_samples_per_s.high == doctest::Approx(alike.samples_per_s));
}

TEST_CASE("its record is read as it was written") {
  const ProfileResult result = profile_of(prep_bound());
  const std::string text = to_json(result);
  CHECK(to_json(profile_from_json(text, "test")) == text);
}

TEST_CASE("the time between epochs is a part of its own, with validation and the wait for workers and the first batch") {
  LaunchedTraining launched = prep_bound();
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  const ProfileResult without = profile_of(launched);
  CHECK_FALSE(without.waits->between_epochs.has_value());
  full.gaps[0] = {{0, to_nanoseconds(12), 1, 9, 0.5}, {to_nanoseconds(20), to_nanoseconds(34), 2, 9, 0.5}};
  const ProfileResult result = profile_of(launched);
  REQUIRE(result.waits->between_epochs.has_value());
  CHECK(result.waits->between_epochs->epochs == 2);
  CHECK(result.waits->between_epochs->seconds == doctest::Approx(13));
  CHECK(result.waits->between_epochs->data_seconds == doctest::Approx(1.5));
  CHECK(result.waits->between_epochs->first_batch_seconds == doctest::Approx(0.5));
  CHECK(result.waits->between_epochs->validation_seconds == doctest::Approx(9));
  CHECK(result.waits->between_epochs->outside_seconds == doctest::Approx(2.5));
  // The measured windows are only some of an epoch's steps, so they do not carry the time between epochs.
  CHECK(result.waits->step_seconds == doctest::Approx(without.waits->step_seconds));
  CHECK(result.run("full")->samples_per_s == doctest::Approx(without.run("full")->samples_per_s));
  full.whole_run = true;
  CHECK(profile_of(launched).run("full")->samples_per_s < without.run("full")->samples_per_s);
  CHECK(profile_of(launched).waits->step_seconds > without.waits->step_seconds);
  CHECK(to_json(profile_from_json(to_json(result), "test")) == to_json(result));
}

TEST_CASE("slow windows count as long as they take: a rate is samples by time, and its interval holds that") {
  LaunchedTraining launched = prep_bound();
  // Seven windows at 3,200 samples a second and one at a tenth of it: 8 x 1600 samples in 8.5 s are 1,506, where the mean of rates says 2,840.
  PhaseMeasurement& full = launched.training.phases[AttachPhase::full];
  full.by_rank[0].clear();
  for (int i = 0; i < 8; ++i) full.by_rank[0].push_back(window_of(0, i == 3 ? 0.100 : 0.010));
  const ProfileResult result = profile_of(launched);
  CHECK(result.run("full")->samples_per_s == doctest::Approx(8 * 1600 / 8.5));
  CHECK(result.run("full")->samples_per_s == doctest::Approx(static_cast<double>(result.run("full")->samples) / result.run("full")->seconds));
  CHECK(result.run("full")->ci95_samples_per_s.high > 2840);
  // So is P: half of the batches take 10 ms, and half 200.
  DrainMeasurement& drain = launched.training.drains.front();
  Nanoseconds at = 0;
  for (std::size_t i = 0; i < drain.by_rank[0].delivered.size(); ++i) drain.by_rank[0].delivered[i] = at += to_nanoseconds(i < 100 ? 0.010 : 0.200);
  CHECK(profile_of(launched).prep->samples_per_s == doctest::Approx(32 / 0.105).epsilon(0.03));
}

TEST_CASE("what was measured before a training failed is told with the failure, and not trusted") {
  LaunchedTraining launched = prep_bound();
  launched.training.phases.erase(AttachPhase::cached);
  launched.failure = "rank 1 hangs";
  ProfileResult result = profile_of(launched);
  CHECK(result.run("full") != nullptr);
  CHECK_FALSE(result.trusted);
  CHECK(result.findings.front().code == "profile-cut-short");
  CHECK(result.findings.front().severity == Finding::Severity::error);
  CHECK(says(finding_of(result, "phases-missing").message, "cut short"));
  launched.exit_status = 1;
  CHECK(finds(profile_of(launched), "training-failed"));
}

TEST_CASE("what makes a rate doubtful is said, and takes the trust") {
  LaunchedTraining read_storage = prep_bound();
  read_storage.training.drains[0].after->storage_bytes = 100'000'000;
  CHECK(finds(profile_of(read_storage), "cached-run-read-storage"));
  CHECK_FALSE(profile_of(read_storage).trusted);
  // Where next to nothing waited for it, the rate stands.
  read_storage.training.drains[0].before->storage_wait_seconds = 0;
  read_storage.training.drains[0].after->storage_wait_seconds = 0.1;
  CHECK(finds(profile_of(read_storage), "cached-run-read-storage"));
  CHECK(profile_of(read_storage).trusted);

  // More than it read is no share of that.
  read_storage.training.drains[0].after->storage_bytes = 1'500'000'000;
  for (const double waited : {0.1, 9.0}) {
    read_storage.training.drains[0].after->storage_wait_seconds = waited;
    const std::string message = finding_of(profile_of(read_storage), "cached-run-read-storage").message;
    CHECK(says(message, "1.4 GiB from storage (more than the 954 MiB that it read by calls"));
    CHECK_FALSE(says(message, "150"));
  }

  // A few pages are no reads that a rate could suffer from, however little the training reads.
  LaunchedTraining few_pages = prep_bound();
  few_pages.training.drains[0].after->requested_bytes = 1'000'000;
  few_pages.training.drains[0].after->storage_bytes = 164 * 1024;
  CHECK_FALSE(finds(profile_of(few_pages), "cached-run-read-storage"));
  CHECK(profile_of(few_pages).trusted);
  few_pages.training.drains[0].before->storage_wait_seconds = 0;
  few_pages.training.drains[0].after->storage_wait_seconds = 0.5;  // For what other programs read.
  CHECK(profile_of(few_pages).trusted);
  few_pages.training.drains[0].after->storage_bytes = 1 << 20;
  CHECK_FALSE(profile_of(few_pages).trusted);

  LaunchedTraining ended_early = prep_bound();
  ended_early.training.phases.erase(AttachPhase::cached);
  ended_early.training.drains.clear();
  CHECK(finds(profile_of(ended_early), "phases-missing"));
  CHECK_FALSE(profile_of(ended_early).bottleneck.has_value());
  CHECK(says(finding_of(profile_of(ended_early), "phases-missing").message, "the training ended"));

  LaunchedTraining slow_start = prep_bound();
  slow_start.finished = true;
  slow_start.training.drains = {drain_of(2, 0.5)};
  slow_start.training.drains[0].by_rank[0].delivered.resize(3);
  slow_start.training.drains[0].by_rank[0].samples.resize(3);
  CHECK(says(finding_of(profile_of(slow_start), "phases-missing").message, "2 workers delivered 3 batches"));
  CHECK_FALSE(says(finding_of(profile_of(slow_start), "phases-missing").message, "leaves each pass"));
  slow_start.training.drains[0].by_rank[0].error = "RuntimeError: DataLoader timed out after 60.0 seconds";
  CHECK(says(finding_of(profile_of(slow_start), "phases-missing").message, "see the finding drain-failed"));

  LaunchedTraining out_of_time = prep_bound();
  out_of_time.training.phases.erase(AttachPhase::cached);
  out_of_time.training.out_of_time = true;
  const ProfileResult short_of_time = profile_of(out_of_time);
  const auto missing = std::ranges::find(short_of_time.findings, "phases-missing", &Finding::code);
  REQUIRE(missing != short_of_time.findings.end());
  CHECK(says(missing->message, "--time-budget left no time for these phases: cached"));

  LaunchedTraining skipping = prep_bound();
  skipping.training.phases[AttachPhase::synthetic].by_rank[0][0].skipped = 20;
  CHECK(finds(profile_of(skipping), "steps-skipped"));

  LaunchedTraining unexplained = prep_bound();
  for (StepWindow& window : unexplained.training.phases[AttachPhase::full].by_rank[0]) window.end += to_nanoseconds(0.1);
  CHECK(finds(profile_of(unexplained), "step-time-unexplained"));

  LaunchedTraining slow_drain = prep_bound();
  CHECK_FALSE(finds(profile_of(slow_drain), "prep-below-found"));
  slow_drain.training.drains = {drain_of(2, 0.030)};
  CHECK(finds(profile_of(slow_drain), "prep-below-found"));
  CHECK_FALSE(profile_of(slow_drain).trusted);

  LaunchedTraining nothing;
  CHECK(says(testing::message_of<Error>([&] { profile_of(nothing); }), "no training step"));
}

TEST_CASE("figures of several trainings together are not trusted, and nothing that follows from them is sure") {
  LaunchedTraining launched = prep_bound();
  CHECK_FALSE(finds(profile_of(launched), "several-trainings"));
  launched.training.several_trainings = true;
  const ProfileResult result = profile_of(launched);
  const Finding finding = finding_of(result, "several-trainings");
  CHECK(finding.severity == Finding::Severity::warning);
  CHECK(says(finding.message, "more than one training"));
  CHECK_FALSE(result.trusted);
  REQUIRE(result.bottleneck.has_value());
  CHECK_FALSE(result.bottleneck->confident);
}

TEST_CASE("what the hook says is a finding; that workers repeat samples is a warning") {
  LaunchedTraining launched = prep_bound();
  launched.training.notes = {{"length-unknown", "The dataset has no length."}, {"workers-repeat", "Each a\x1b[2Jb."}};
  const ProfileResult result = profile_of(launched);
  CHECK(finding_of(result, "length-unknown").severity == Finding::Severity::info);
  CHECK(finding_of(result, "length-unknown").message == "The dataset has no length.");
  CHECK(finding_of(result, "workers-repeat").severity == Finding::Severity::warning);
  CHECK(says(finding_of(result, "workers-repeat").message, "Each a"));
  CHECK_FALSE(says(finding_of(result, "workers-repeat").message, "\x1b"));
  CHECK(result.trusted);
}

TEST_CASE("a drain that failed is said with its workers, the batches that it delivered before, and why") {
  LaunchedTraining launched = prep_bound();
  const auto message_of_drain = [&](int workers, std::size_t batches) {
    DrainMeasurement& drain = launched.training.drains[1];
    drain.workers = workers;
    DrainedMessage& drained = drain.by_rank[0];
    drained.delivered.resize(batches);
    drained.samples.resize(batches);
    drained.error = "ValueError: bad sample\x07 20";
    const ProfileResult result = profile_of(launched);
    CHECK(finding_of(result, "drain-failed").severity == Finding::Severity::warning);
    CHECK_FALSE(says(finding_of(result, "drain-failed").message, "\x07"));
    CHECK(says(finding_of(result, "drain-failed").message, "ValueError: bad sample"));
    return finding_of(result, "drain-failed").message;
  };
  CHECK_FALSE(finds(profile_of(launched), "drain-failed"));
  CHECK(says(message_of_drain(4, 10), "with 4 workers failed after 10 batches: "));
  CHECK(says(message_of_drain(1, 1), "with 1 worker failed after 1 batch: "));
  CHECK(says(message_of_drain(0, 0), "with 0 workers failed after 0 batches: "));
  // Each rank's loader fails by itself.
  launched.training.drains[1].by_rank[1] = launched.training.drains[1].by_rank[0];
  const ProfileResult of_two = profile_of(launched);
  CHECK(std::ranges::count(of_two.findings, "drain-failed", &Finding::code) == 2);
}

TEST_CASE("a training whose batches a sampler of its own makes has no batch size") {
  LaunchedTraining launched = prep_bound();
  CHECK(profile_of(launched).settings.batch_size == 32);
  launched.training.loader->batch_size.reset();
  const ProfileResult result = profile_of(launched);
  CHECK(result.settings.batch_size == 0);
  const std::string text = to_json(result);
  CHECK(to_json(profile_from_json(text, "test")) == text);
}
