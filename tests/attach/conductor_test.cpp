#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

TEST_CASE("a training is led through all phases, and each phase has its own rate") {
  Training training;
  Conductor conductor = made(60);
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(training.members.at(0).ended);
  CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(3200));
  CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(4000));
  CHECK(rate(conductor, AttachPhase::busy) == doctest::Approx(32 / 0.006));
  CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(8000));
  std::vector<AttachPhase> order = training.members.at(0).phases;
  order.erase(std::unique(order.begin(), order.end()), order.end());
  CHECK(order == std::vector{AttachPhase::full, AttachPhase::cached, AttachPhase::busy, AttachPhase::synthetic});
  REQUIRE(conductor.training().drains.size() == 2);
  CHECK(conductor.training().drains[0].workers == 2);
  CHECK(stretches_of(conductor.training().drains[0]).front().rate() == doctest::Approx(6400));
  CHECK(conductor.training().phases.at(AttachPhase::synthetic).kept_batches == 16);
}

TEST_CASE("what the GPUs that train compute is looked at in each phase, but for its first second") {
  Training training;
  training.batches = 100'000;
  training.drains_in_time = true;
  Conductor::Plan plan;
  std::string asked;
  plan.device_use = [&asked](const std::string& gpus) {
    asked = gpus;
    return std::optional(0.5);
  };
  Notes notes;
  Conductor conductor(
      plan, [] { return TreeUse{}; }, notes);
  training.until = [&] {
    if (!training.members.at(0).phases.empty()) conductor.tick(training.now);
    return false;
  };
  for (const char* const gpus : {"GPU-a", "GPU-b", "GPU-a"}) {
    DeviceMessage device;
    device.gpus = gpus;
    conductor.receive(0, device, 0);
  }
  training.run(conductor);
  CHECK(asked == "GPU-a,GPU-b");
  for (const auto& [phase, measured] : conductor.training().phases) {
    CHECK_FALSE(measured.device_use.empty());
    CHECK(measured.device_use.size() < 40);
  }
}

TEST_CASE("without a sandbox a training takes steps with its own batches alone, and then its loader is drained") {
  Training training;
  Conductor::Plan plan;
  plan.seconds = 60;
  plan.phases = Conductor::Phases::full_and_prep;
  Conductor conductor(
      plan, [] { return TreeUse{}; }, null_events());
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(std::ranges::count(training.members.at(0).phases, AttachPhase::full) == std::ssize(training.members.at(0).phases));
  CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(3200));
  CHECK_FALSE(conductor.training().drains.empty());
}

TEST_CASE("the subset takes a quarter of the memory that is left beside the training, or what was asked for") {
  for (const Bytes asked : {Bytes{0}, Bytes{60'000'000}}) {
    Training training;
    Conductor::Plan plan;
    plan.seconds = 60;
    plan.subset_bytes = asked;
    // Each step reads a megabyte.
    const auto use = [&training] {
      TreeUse used;
      const auto rank = training.members.find(0);
      if (rank != training.members.end()) used.requested_bytes = rank->second.phases.size() * 1'000'000;
      return used;
    };
    Conductor conductor(plan, use, null_events());
    conductor.take_room(80'000'000);
    training.run(conductor);
    REQUIRE_FALSE(training.members.at(0).drains.empty());
    CHECK_FALSE(training.members.at(0).drains[0].measured);
    CHECK(static_cast<double>(training.members.at(0).drains[0].batches) == doctest::Approx(asked > 0 ? 60 : 20).epsilon(0.1));
  }
}

TEST_CASE("each phase has a note, the first one with how long steps wait; the split of a sample's time follows, then P") {
  Training training;
  Notes notes;
  Conductor conductor = made(60, notes);
  training.run(conductor);
  REQUIRE(notes.lines.size() == 6);
  CHECK(says(notes.lines[0], "full: 3200.0 samples/s"));
  CHECK(says(notes.lines[0], "each step waits 50 % of its time for a batch"));
  for (const std::size_t other : {1, 2, 3}) CHECK_FALSE(says(notes.lines[other], "waits"));
  CHECK(notes.lines[4] ==
        "so far, of the time a sample: 40 % compute, 20 % contention with the loader's workers, 20 % waiting for prep, 20 % for storage");
  CHECK(notes.lines[5].starts_with("prep: 6400"));
  CHECK(notes.lines[5].ends_with(" samples/s with 2 workers"));
}

TEST_CASE("of data in memory the first verdict comes within 45 s, though steps take most of a second and differ") {
  Training training;
  training.full = training.cached = training.busy = 0.8;
  training.synthetic = 0.6;
  training.drained = 0.5;
  training.spread = 0.05;
  training.drains_in_time = true;
  struct Clocked : Notes {
    explicit Clocked(const Training& training) : clock(&training) {}
    void note(const std::string& line) override {
      Notes::note(line);
      if (line.starts_with("so far, of the time")) compared_at = clock->now;
    }
    const Training* clock;
    Nanoseconds compared_at = 0;
  } notes(training);
  Conductor::Plan plan;
  plan.worker_counts = {1, 2};
  TreeUse use;
  Conductor conductor(
      plan,
      [&] {
        use.requested_bytes += 1'000'000;
        return use;
      },
      notes);
  const Nanoseconds begun = training.now;
  training.run(conductor);
  CHECK(to_seconds(notes.compared_at - begun) < 45);
  CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(32 / 0.6).epsilon(0.05));
}

TEST_CASE("nothing is said of the waits of a script that fetches its batches in a thread of its own") {
  Training training;
  Notes notes;
  Conductor conductor = made(60, notes);
  conductor.receive(0, NoteMessage{"loader-in-thread", "The script fetches its batches in a thread of its own."}, 0);
  training.run(conductor);
  REQUIRE(notes.lines.size() == 6);
  CHECK_FALSE(says(notes.lines[0], "waits"));
}

TEST_CASE("a window on a device is long against what is queued there") {
  struct {
    double step_seconds;
    std::uint64_t least;
  } const cases[]{{0.002, 50}, {0.1, 50}, {0.5, 10}, {2, 3}};
  for (const auto& each : cases) {
    const double step_seconds = each.step_seconds;
    CAPTURE(step_seconds);
    Conductor conductor = made(180);
    conductor.receive(0, DeviceMessage{true, "a device", {}, {}}, 0);
    Training training;
    training.batches = 100'000;
    training.full = training.synthetic = training.busy = training.cached = step_seconds;
    training.run(conductor);
    for (const AttachPhase phase : {AttachPhase::full, AttachPhase::synthetic}) {
      REQUIRE(!conductor.training().phases.at(phase).by_rank.at(0).empty());
      for (const StepWindow& window : conductor.training().phases.at(phase).by_rank.at(0)) CHECK(window.samples.size() >= each.least);
    }
  }
}

TEST_CASE("a window of batches that are handed out again holds whole cycles of them") {
  Training training;
  Conductor conductor = made(60);
  training.run(conductor);
  for (const StepWindow& window : conductor.training().phases.at(AttachPhase::synthetic).by_rank.at(0)) CHECK(window.samples.size() % 16 == 0);
}

TEST_CASE("what a start of the command had too few steps for is measured in the next one, and what it has completed is not measured again") {
  Conductor::Plan plan;
  plan.seconds = 60;
  plan.worker_counts = {1, 2};
  const auto use = [] { return TreeUse{}; };
  AttachedTraining so_far;
  std::vector<AttachPhase> measured;
  for (int start = 0; start < 4 && !so_far.drained; ++start) {
    Training training;
    training.batches = 250;
    training.full = 0.1;
    training.until = [&] { return training.members.at(0).epoch == 1; };
    so_far.starts = start;
    Conductor conductor(plan, use, null_events(), so_far);
    training.run(conductor);
    so_far = conductor.training();
    CHECK(std::ranges::count(training.members.at(0).phases, AttachPhase::full) < (start == 0 ? 251 : 20));
  }
  CHECK(so_far.drained);
  CHECK(so_far.starts == 1);
  for (const AttachPhase phase : {AttachPhase::full, AttachPhase::cached, AttachPhase::busy, AttachPhase::synthetic}) {
    CAPTURE(static_cast<int>(phase));
    CHECK(so_far.phases.at(phase).complete);
    CHECK(!so_far.phases.at(phase).by_rank.at(0).empty());
  }
}

TEST_CASE("every second window of the phase full is counted alone, where nothing but steps happens in them and epochs are long") {
  const auto counted = [](const Conductor& conductor) {
    const std::vector<StepWindow>& windows = conductor.training().phases.at(AttachPhase::full).by_rank.at(0);
    return std::pair(std::ranges::count_if(windows, &StepWindow::is_counted), std::ssize(windows));
  };
  Training training;
  training.spread = 0.5;
  Conductor conductor = made(60);
  training.run(conductor);
  CHECK(counted(conductor).second >= 8);
  CHECK(counted(conductor).first == counted(conductor).second / 2);
  for (const auto& [phase, measured] : conductor.training().phases)
    CHECK((phase == AttachPhase::full || std::ranges::none_of(measured.by_rank.at(0), &StepWindow::is_counted)));

  Training busy;
  busy.spread = 0.5;
  busy.can_count = false;
  Conductor clocked = made(60);
  busy.run(clocked);
  CHECK(counted(clocked).first == 0);
  CHECK(counted(clocked).second >= 8);

  Training of_short_epochs;
  of_short_epochs.spread = 0.5;
  of_short_epochs.batches = 60;  // A window has 50.
  Conductor over_ends = made(60);
  of_short_epochs.run(over_ends);
  CHECK(counted(over_ends).first <= 1);
  CHECK(counted(over_ends).second >= 8);
}

TEST_CASE("a phase's first half second, and the batches that lay ready before it, are in no window") {
  for (const int prefetch : {2, 500}) {
    Training training;
    training.batches = 100'000;
    training.prefetch = prefetch;
    Conductor conductor = made(60);
    training.run(conductor);
    const auto& full = conductor.training().phases.at(AttachPhase::full).by_rank.at(0);
    const double before = to_seconds(full.front().begin - to_nanoseconds(100));
    const double unmeasured = prefetch == 2 ? 0.5 : 2.0;  // Half of the phase's time, which is not enough for 1,000 batches of 10 ms.
    CHECK(before > unmeasured);
    CHECK(before < unmeasured + 2);
  }
}

TEST_CASE("steps of seconds are led through the phases within the time budget, by fewer steps") {
  for (const double seconds : {1.0, 3.0, 8.0, 20.0}) {
    for (const std::uint64_t batches : {12U, 100'000U}) {
      CAPTURE(seconds);
      CAPTURE(batches);
      Training training;
      training.batches = batches;
      training.full = training.synthetic = training.busy = training.cached = seconds;
      training.drained = 0.05;
      Conductor conductor = made(180);
      const Nanoseconds start = training.now;
      training.run(conductor);
      CHECK(conductor.finished());
      CHECK(to_seconds(training.now - start) < 180 * 1.2);
      for (const AttachPhase phase : {AttachPhase::full, AttachPhase::synthetic}) {
        CAPTURE(static_cast<int>(phase));
        CHECK(rate(conductor, phase) == doctest::Approx(32 / seconds));
        std::size_t steps = 0;
        for (const StepWindow& window : conductor.training().phases.at(phase).by_rank.at(0)) steps += window.samples.size();
        CHECK(steps >= 3);
      }
    }
  }
}

TEST_CASE("what lies between two epochs of the phase full is kept, with the wait for the first batch after it") {
  Conductor conductor = made(60);
  join(conductor, 1);
  conductor.receive(0, CheckpointMessage{}, 0);
  CheckpointMessage epoch_end;
  epoch_end.why = CheckpointMessage::Why::epoch_end;
  conductor.receive(0, epoch_end, to_nanoseconds(1));
  CheckpointMessage start;
  start.between = EpochGap{to_nanoseconds(1), to_nanoseconds(13), 2, 9};
  conductor.receive(0, start, to_nanoseconds(13));
  CheckpointMessage window;
  window.why = CheckpointMessage::Why::window;
  window.window.emplace();
  window.window->begin = to_nanoseconds(13);
  window.window->end = to_nanoseconds(15);
  window.window->wait = {1.5, 0};
  for (auto* list : {&window.window->compute, &window.window->outside, &window.window->validation, &window.window->ranks,
                     &window.window->outside_ranks, &window.window->samples})
    list->assign(2, 0.25);
  conductor.receive(0, window, to_nanoseconds(15));
  conductor.receive(0, window, to_nanoseconds(17));
  const auto& gaps = conductor.training().phases.at(AttachPhase::full).gaps.at(0);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].validation_seconds == 9);
  CHECK(gaps[0].first_batch_seconds == 1.5);
  CHECK(conductor.training().phases.at(AttachPhase::full).first_waits.at(0) == std::vector{1.5});
}

TEST_CASE("passes that the script leaves after a few steps are measured, several of them as a window") {
  for (const int ranks : {1, 3}) {
    for (const std::uint64_t steps : {1U, 3U, 10U, 19U, 40U}) {
      CAPTURE(ranks);
      CAPTURE(steps);
      Training training;
      training.ranks = ranks;
      training.batches = steps;
      training.told_batches = 1000;
      Conductor conductor = made(60);
      training.run(conductor);
      CHECK(conductor.finished());
      const double all = 32.0 * ranks;
      CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(all / training.full));
      CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(all / training.synthetic));
      CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(all / training.cached));
    }
  }
}

TEST_CASE("windows go on over ends of epochs, and what lies between epochs is in no rate") {
  for (const int ranks : {1, 3}) {
    {
      Training training;
      training.ranks = ranks;
      training.batches = 10;
      training.gap = EpochGap{0, to_nanoseconds(0.05), 0.04, 0};
      Conductor conductor = made(60);
      training.run(conductor);
      CHECK(conductor.finished());
      const double samples = 320.0 * ranks;
      const PhaseMeasurement& full = conductor.training().phases.at(AttachPhase::full);
      CHECK(full.pass_steps == 10);
      CHECK(full.by_rank.at(0).front().samples.size() == 50);
      CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(samples / 0.10));
      CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(samples / 0.08).epsilon(0.01));
      CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(samples / 0.04).epsilon(0.01));
      CHECK(waiting_fraction(full).value_or(0) == doctest::Approx(0.5));
      CHECK(full.gaps.at(0).front().first_batch_seconds.value_or(0) == doctest::Approx(0.005));
    }
  }
}

TEST_CASE("a pass that is left early costs the next ones nothing") {
  Training training;
  training.batches = 5;
  training.told_batches = 100'000;
  training.later_batches = 100'000;
  Conductor conductor = made(60);
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(conductor.training().phases.at(AttachPhase::full).by_rank.at(0).size() >= 8);
  CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(8000));
}

TEST_CASE("what a drained stream takes to begin again is no part of P, unless each of its passes is a few batches") {
  DrainedMessage drained;
  drained.workers = 2;
  Nanoseconds now = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    if (i % 8 == 0) {
      now += to_nanoseconds(1);
      drained.restarts.push_back(i);
    }
    now += to_nanoseconds(0.01);
    drained.delivered.push_back(now);
    drained.samples.push_back(4);
  }
  drained.restarts.erase(drained.restarts.begin());
  DrainMeasurement drain;
  drain.by_rank[0] = drained;
  for (const Stretch& each : stretches_of(drain)) CHECK(each.rate() == doctest::Approx(400));
  for (std::size_t i = 1; i < 40; ++i)
    if (i % 8 != 0) drain.by_rank[0].restarts.push_back(i);
  std::ranges::sort(drain.by_rank[0].restarts);
  CHECK_FALSE(stretches_of(drain).empty());
  // A rank of which nothing can be said, whichever it is, is no rank that is as fast as the others.
  for (const int silent : {-1, 1}) {
    DrainMeasurement other = drain;
    other.by_rank[silent] = {};
    CHECK(stretches_of(other).empty());
  }
}
