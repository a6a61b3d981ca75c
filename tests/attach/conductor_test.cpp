#include "attach/conductor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "../base/texts.hpp"
#include "base/random.hpp"

using namespace dsanalyze;
using testing::says;

namespace {

/// So many ranks say who they are, and name their loaders.
void join(Conductor& conductor, int ranks, std::optional<std::uint64_t> batches = {}) {
  for (int i = 0; i < ranks; ++i) {
    HelloMessage hello;
    hello.pid = 100 + i;
    hello.rank = i;
    hello.world = ranks;
    conductor.receive(i, hello, 0);
    LoaderMessage loader;
    loader.primary = true;
    loader.loader.workers = 2;
    loader.loader.batches = batches;
    conductor.receive(i, loader, 0);
  }
}

/// A training of several ranks in made-up time. Each rank takes the same number of steps an epoch; which rank comes to a checkpoint first is drawn.
struct Training {
  int ranks = 1;
  std::uint64_t batches = 1000;                                             ///< an epoch
  double full = 0.010, synthetic = 0.004, cached = 0.008, drained = 0.005;  ///< seconds a step or batch
  double spread = 0;                                                        ///< steps differ by up to so much of them, either way
  std::uint64_t seed = 1;
  std::function<double(int)> drained_by_workers{};  ///< seconds a batch, in place of `drained`
  bool drains_in_time = false;                      ///< a drain ends when its seconds are over; else after 200 batches

  struct Rank {
    std::uint64_t step = 0, epoch = 0;
    AttachPhase phase = AttachPhase::full;
    std::uint64_t steps_left = 0;
    Nanoseconds answered = 0;
    bool asks = true;  ///< has to come to a checkpoint
    CheckpointMessage::Why why = CheckpointMessage::Why::start;
    std::optional<DrainLoader> drain;
    std::vector<AttachPhase> phases;  ///< of every step that it took
    bool ended = false;
  };
  std::map<int, Rank> members{};
  Nanoseconds now = to_nanoseconds(100);

  [[nodiscard]] double step_seconds(AttachPhase phase) const {
    return phase == AttachPhase::full ? full : phase == AttachPhase::synthetic ? synthetic : cached;
  }

  void follow(const Conductor::Answers& answers) {
    for (const auto& [member, answer] : answers) {
      Rank& rank = members.at(member);
      rank.asks = false;
      rank.answered = now;
      if (const auto* run = std::get_if<RunSteps>(&answer)) {
        rank.phase = run->phase;
        rank.steps_left = run->steps;
      } else if (const auto* change = std::get_if<SwitchPhase>(&answer)) {
        rank.phase = change->phase;
        rank.asks = true;
        rank.why = CheckpointMessage::Why::switched;
      } else if (const auto* drain = std::get_if<DrainLoader>(&answer)) {
        rank.drain = *drain;
      } else if (std::get<PlainAnswer>(answer) == PlainAnswer::end) {
        rank.ended = true;
      }
    }
  }

  /// What a rank does once it was answered: steps to the next checkpoint, or a drain.
  HookMessage work(Rank& rank) {
    if (rank.drain) {
      DrainedMessage message;
      message.workers = rank.drain->workers;
      message.measured = rank.drain->measured;
      message.begin = now;
      const double seconds = drained_by_workers ? drained_by_workers(message.workers) : drained;
      for (int i = 1; i <= 200 && (!drains_in_time || seconds * (i - 1) < rank.drain->seconds); ++i) {
        message.delivered.push_back(now + to_nanoseconds(seconds * i));
        message.samples.push_back(32);
      }
      now = message.delivered.back();
      rank.drain.reset();
      return message;
    }
    CheckpointMessage message;
    message.why = rank.why;
    message.step = rank.step;
    message.kept = 16;
    if (rank.why != CheckpointMessage::Why::window) return message;
    StepWindow window;
    double took = 0;
    window.begin = rank.answered;
    for (; rank.steps_left > 0 && rank.step < batches; --rank.steps_left, ++rank.step) {
      rank.phases.push_back(rank.phase);
      RandomStream random(seed * 1'000'003 + rank.step);
      const double seconds = step_seconds(rank.phase) * (1 + spread * random.uniform(-1, 1));
      took += seconds;
      window.wait.push_back(seconds / 2);
      window.compute.push_back(seconds / 2);
      for (auto* list : {&window.outside, &window.validation, &window.ranks, &window.hook}) list->push_back(0);
      window.samples.push_back(32);
    }
    window.end = window.begin + to_nanoseconds(took);
    now = std::max(now, window.end);
    message.window = window;
    message.step = rank.step;
    if (rank.steps_left > 0) message.why = CheckpointMessage::Why::epoch_end;
    return message;
  }

  /// Runs until all phases are over; how many answers were given.
  std::size_t run(Conductor& conductor) {
    RandomStream random(seed);
    std::size_t given = 0;
    for (int i = 0; i < ranks; ++i) members[i];
    join(conductor, ranks, batches);
    while (!conductor.finished() && given < 1'000'000) {
      std::vector<int> ready;
      for (auto& [number, rank] : members)
        if (!rank.ended && (rank.asks || rank.drain || rank.steps_left > 0)) ready.push_back(number);
      if (ready.empty()) break;
      const int number = ready[random.below(ready.size())];
      Rank& rank = members.at(number);
      const HookMessage message = work(rank);
      const bool last_of_epoch =
          std::holds_alternative<CheckpointMessage>(message) && std::get<CheckpointMessage>(message).why == CheckpointMessage::Why::epoch_end;
      now += to_nanoseconds(0.001);  // A checkpoint takes a while.
      rank.asks = false;
      rank.why = CheckpointMessage::Why::window;
      if (last_of_epoch) {
        ++rank.epoch;
        rank.step = rank.steps_left = 0;
      }
      const auto answers = conductor.receive(number, message, now);
      given += answers.size();
      follow(answers);
      if (last_of_epoch) {
        rank.asks = true;
        rank.why = CheckpointMessage::Why::start;
      }
    }
    return given;
  }
};

Conductor made(double seconds, EventSink& events = null_events()) {
  Conductor::Plan plan;
  plan.seconds = seconds;
  plan.worker_counts = {1, 2};
  return {plan, [] { return TreeUse{}; }, events};
}

/// Keeps the lines that it is told.
struct Notes : EventSink {
  std::vector<std::string> lines;
  void progress(const Progress& /*progress*/) override {}
  void note(const std::string& line) override { lines.push_back(line); }
  void finding(const Finding& /*finding*/) override {}
};

double rate(const Conductor& conductor, AttachPhase phase) {
  const auto stretches = stretches_of(conductor.training().phases.at(phase));
  return stretches.empty() ? 0 : stretches.front().rate();
}

}  // namespace

TEST_CASE("a training is led through all phases, and each phase has its own rate") {
  Training training;
  Conductor conductor = made(60);
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(training.members.at(0).ended);
  CHECK(rate(conductor, AttachPhase::full) == doctest::Approx(3200));
  CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(8000));
  CHECK(rate(conductor, AttachPhase::cached) == doctest::Approx(4000));
  REQUIRE(conductor.training().drains.size() == 2);
  CHECK(conductor.training().drains[0].workers == 2);
  CHECK(stretches_of(conductor.training().drains[0]).front().rate() == doctest::Approx(6400));
  CHECK(conductor.training().phases.at(AttachPhase::synthetic).kept_batches == 16);
}

TEST_CASE("the first phase's note says how long steps wait, so that there is an answer before the verdict; no other phase's does") {
  Training training;
  Notes notes;
  Conductor conductor = made(60, notes);
  training.run(conductor);
  REQUIRE(notes.lines.size() == 4);
  CHECK(says(notes.lines[0], "full: 3200.0 samples/s"));
  CHECK(says(notes.lines[0], "each step waits 50 % of its time for a batch"));
  for (const std::size_t other : {1, 2, 3}) CHECK_FALSE(says(notes.lines[other], "waits"));
}

TEST_CASE("where the first phase takes long, its answer is said before it ends") {
  Training training;
  training.full = 0.8;
  training.spread = 0.4;
  Notes notes;
  Conductor conductor = made(180, notes);
  training.run(conductor);
  REQUIRE(notes.lines.size() >= 5);
  CHECK(notes.lines[0] == "so far: as found, each step waits 50 % of its time for a batch");
  CHECK(says(notes.lines[1], "full: "));
}

TEST_CASE("how the loader alone compares with the training is said as soon as the script's own workers were measured") {
  for (const auto& [drained, said] : {std::pair{0.005, "slower than"}, {0.003, "faster than"}}) {
    Training training;
    training.drained = drained;
    Notes notes;
    Conductor conductor = made(60, notes);
    training.run(conductor);
    REQUIRE(notes.lines.size() == 4);
    CHECK(says(notes.lines[2], "prep: "));
    CHECK(says(notes.lines[2], "2 workers"));
    CHECK(says(notes.lines[2], std::string("the loader alone is ") + said + " the training with batches at hand (8,000 samples/s)"));
  }
}

TEST_CASE("of data in memory the loader alone is compared with the training within a minute, though steps take most of a second and differ") {
  Training training;
  training.full = training.cached = 0.8;
  training.synthetic = 0.6;
  training.drained = 0.5;
  training.spread = 0.05;
  training.drains_in_time = true;
  struct Clocked : Notes {
    explicit Clocked(const Training& training) : clock(&training) {}
    void note(const std::string& line) override {
      Notes::note(line);
      if (line.starts_with("prep: ")) compared_at = clock->now;
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
  CHECK(to_seconds(notes.compared_at - begun) < 60);
  CHECK(rate(conductor, AttachPhase::synthetic) == doctest::Approx(32 / 0.6).epsilon(0.05));
}

TEST_CASE("nothing is said of the waits of a script that fetches its batches in a thread of its own") {
  Training training;
  Notes notes;
  Conductor conductor = made(60, notes);
  conductor.receive(0, NoteMessage{"loader-in-thread", "The script fetches its batches in a thread of its own."}, 0);
  training.run(conductor);
  REQUIRE(notes.lines.size() == 4);
  CHECK_FALSE(says(notes.lines[0], "waits"));
}

TEST_CASE("more workers than planned are tried as long as they deliver more, and less than the training takes") {
  const auto tried = [](double batch_seconds_of_one, bool scales) {
    Training training;
    training.drained_by_workers = [=](int workers) { return scales ? batch_seconds_of_one / workers : batch_seconds_of_one; };
    Conductor conductor = made(60);
    training.run(conductor);
    std::vector<int> workers;
    for (const DrainMeasurement& drain : conductor.training().drains) workers.push_back(drain.workers);
    return workers;
  };
  // A step takes 4 ms.
  CHECK(tried(0.030, true) == std::vector<int>{2, 1, 4, 8});
  CHECK(tried(0.006, true) == std::vector<int>{2, 1});
  CHECK(tried(0.030, false) == std::vector<int>{2, 1});
}

TEST_CASE("a window of batches that are handed out again holds whole cycles of them") {
  Training training;
  Conductor conductor = made(60);
  training.run(conductor);
  for (const StepWindow& window : conductor.training().phases.at(AttachPhase::synthetic).by_rank.at(0)) CHECK(window.samples.size() % 16 == 0);
}

TEST_CASE("ranks are never out of step, whichever comes first to a checkpoint, over many epochs") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Training training;
    training.ranks = 2 + static_cast<int>(seed % 3);
    training.batches = 20 + seed * 7;
    training.seed = seed;
    Conductor conductor = made(20);
    training.run(conductor);
    CHECK(conductor.finished());
    for (const auto& [number, rank] : training.members) {
      CHECK(rank.ended);
      CHECK(rank.phases == training.members.at(0).phases);
    }
  }
}

TEST_CASE("an epoch of many steps is enough for all phases") {
  Training training;
  training.batches = 400;
  Conductor conductor = made(600);
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(training.members.at(0).epoch == 0);
}

TEST_CASE("where more epochs follow, the time that is left after a few steps of each phase is for more of them") {
  Training training;
  training.batches = 130;
  training.full = training.cached = 0.022;
  training.synthetic = 0.020;
  training.spread = 0.4;
  Bytes read = 0;
  Conductor::Plan plan;
  plan.seconds = 60;
  plan.worker_counts = {1, 2};
  Conductor conductor(
      plan,
      [&] {
        TreeUse use;
        use.at = training.now;
        use.requested_bytes = read += 1000;
        return use;
      },
      null_events());
  const Nanoseconds begun = training.now;
  training.run(conductor);
  CHECK(conductor.finished());
  CHECK(to_seconds(training.now - begun) < 60 * 1.2);
  for (const AttachPhase phase : {AttachPhase::full, AttachPhase::synthetic, AttachPhase::cached}) {
    CAPTURE(static_cast<int>(phase));
    const PhaseMeasurement& taken = conductor.training().phases.at(phase);
    std::size_t steps = 0;
    double seconds = 0;
    for (const StepWindow& window : taken.by_rank.at(0)) {
      steps += window.samples.size();
      seconds += to_seconds(window.end - window.begin);
    }
    CHECK(steps > 130);
    // What was used in other phases is not counted.
    CHECK(to_seconds(taken.after->at - taken.before->at) < 1.5 * seconds);
    CHECK(taken.after->requested_bytes > taken.before->requested_bytes);
  }
  CHECK(conductor.training().drains.size() == 2);
}

TEST_CASE("steps that differ, as those of batches of several sizes do, are found steady as well as equal ones") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Training training;
    training.batches = 100'000 + seed * 1000;
    training.spread = 0.6;
    training.seed = seed;
    Conductor conductor = made(60);
    training.run(conductor);
    for (const AttachPhase phase : {AttachPhase::full, AttachPhase::synthetic}) CHECK(conductor.training().phases.at(phase).steady);
  }
}

TEST_CASE("a second training in the same command is refused by name, whether the first has ended or not") {
  for (const bool ended : {false, true}) {
    Conductor conductor = made(60);
    join(conductor, 1);
    conductor.receive(0, CheckpointMessage{}, 0);
    if (ended) conductor.leave(0, 1);
    HelloMessage hello;
    hello.pid = 200;
    conductor.receive(1, hello, 2);
    LoaderMessage loader;
    loader.primary = true;
    CHECK(says(testing::message_of<Error>([&] { conductor.receive(1, loader, 2); }), "process 200 trains, too, after process 100"));
  }
}

TEST_CASE("steps of seconds are led through the phases within the time budget, by fewer steps") {
  for (const double seconds : {1.0, 3.0, 8.0, 20.0}) {
    for (const std::uint64_t batches : {12U, 100'000U}) {
      CAPTURE(seconds);
      CAPTURE(batches);
      Training training;
      training.batches = batches;
      training.full = training.synthetic = training.cached = seconds;
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
      CHECK(conductor.training().phases.at(AttachPhase::full).steady == (seconds <= 3));
    }
  }
}

TEST_CASE("a rank that keeps the others waiting is named, and one that ends, too") {
  Training training;
  training.ranks = 2;
  Conductor conductor = made(60);
  join(conductor, 2);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).empty());
  CHECK(conductor.tick(to_nanoseconds(59)).empty());
  CHECK(says(testing::message_of<Error>([&] { conductor.tick(to_nanoseconds(61)); }), "rank 1 (PID 101)"));
  CHECK(says(testing::message_of<Error>([&] { conductor.leave(1, to_nanoseconds(61)); }), "rank 1"));
}

TEST_CASE("a rank whose hook gave up ends the profile at once, so that no other waits for it in vain") {
  Conductor conductor = made(60);
  join(conductor, 2);
  HelloMessage helper;
  helper.pid = 300;
  conductor.receive(7, helper, 0);
  CHECK(conductor.receive(7, OffMessage{"a process that does not train"}, 0).empty());
  const std::string said = testing::message_of<Error>([&] { conductor.receive(1, OffMessage{"No batch came."}, 0); });
  CHECK(says(said, "rank 1 (PID 101)"));
  CHECK(says(said, "No batch came."));
}

TEST_CASE("one rank's hang ends the profile, and what a script does between epochs may take longer") {
  Conductor conductor = made(60);
  join(conductor, 1);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).size() == 1);
  CHECK(conductor.tick(to_nanoseconds(30)).empty());
  CHECK(says(testing::message_of<Error>([&] { conductor.tick(to_nanoseconds(90)); }), "hangs"));
  CheckpointMessage epoch_end;
  epoch_end.why = CheckpointMessage::Why::epoch_end;
  CHECK(conductor.receive(0, epoch_end, to_nanoseconds(91)).size() == 1);
  CHECK(conductor.tick(to_nanoseconds(400)).empty());
  CHECK(says(testing::message_of<Error>([&] { conductor.tick(to_nanoseconds(800)); }), "hangs"));
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
                     &window.window->outside_ranks, &window.window->hook, &window.window->samples})
    list->assign(2, 0.25);
  conductor.receive(0, window, to_nanoseconds(15));
  conductor.receive(0, window, to_nanoseconds(17));
  const auto& gaps = conductor.training().phases.at(AttachPhase::full).gaps.at(0);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].validation_seconds == 9);
  CHECK(gaps[0].first_batch_seconds == 1.5);
}

TEST_CASE("an epoch that ranks announce after its first step brings the wait for its first batch along") {
  Conductor conductor = made(60);
  join(conductor, 1);
  conductor.receive(0, CheckpointMessage{}, 0);
  CheckpointMessage start;
  start.between = EpochGap{to_nanoseconds(1), to_nanoseconds(13), 2, 9, 1.25};
  CheckpointMessage window;
  window.why = CheckpointMessage::Why::window;
  window.window.emplace();
  window.window->wait = window.window->compute = window.window->outside = window.window->samples = {1, 1};
  start.window = window.window;
  conductor.receive(0, start, to_nanoseconds(13));
  conductor.receive(0, window, to_nanoseconds(15));
  const auto& gaps = conductor.training().phases.at(AttachPhase::full).gaps.at(0);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].first_batch_seconds == 1.25);
}

TEST_CASE("where one rank's epoch has ended, another goes on to the end of its own instead of waiting") {
  Conductor conductor = made(60);
  join(conductor, 2);
  conductor.receive(0, CheckpointMessage{}, 0);
  CHECK(conductor.receive(1, CheckpointMessage{}, 0).size() == 2);
  CheckpointMessage window;
  window.why = CheckpointMessage::Why::window;
  CHECK(conductor.receive(1, window, 1).empty());
  CheckpointMessage epoch_end;
  epoch_end.why = CheckpointMessage::Why::epoch_end;
  const auto answers = conductor.receive(0, epoch_end, 2);
  REQUIRE(answers.size() == 2);
  CHECK(std::get<RunSteps>(answers[0].answer).steps > 1000);
}

TEST_CASE("under passive, a second process that trains as the same rank is noticed") {
  Conductor conductor = made(60);
  join(conductor, 1);
  PassiveMessage window;
  window.window.emplace();
  window.window->samples = {1};
  conductor.receive(0, window, 0);
  CHECK_FALSE(conductor.training().several_trainings);
  HelloMessage hello;
  hello.pid = 4711;
  conductor.receive(5, hello, 1);
  LoaderMessage loader;
  loader.primary = true;
  conductor.receive(5, loader, 1);
  CHECK(conductor.training().several_trainings);
}

TEST_CASE("a rank that says good-bye has come to its script's end, and is no loss") {
  Conductor conductor = made(60);
  join(conductor, 2);
  conductor.receive(1, ByeMessage{}, 0);
  CHECK(conductor.leave(1, 0).empty());
  CHECK_FALSE(conductor.finished());
}

TEST_CASE("ranks without a loader follow the others") {
  Conductor conductor = made(60);
  for (int i = 0; i < 2; ++i) {
    HelloMessage hello;
    hello.rank = i;
    hello.world = 2;
    conductor.receive(i, hello, 0);
  }
  LoaderMessage loader;
  loader.primary = true;
  conductor.receive(0, loader, 0);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).empty());
  CHECK(conductor.tick(to_nanoseconds(5)).empty());
  CHECK(conductor.tick(to_nanoseconds(11)).size() == 1);
}
