#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "made_training.hpp"

using namespace dsanalyze;
using namespace dsanalyze::testing;

namespace {

enum class Said { nothing, local_world, distributed };

/// The first `here` of four ranks say who they are.
void join_some(Conductor& conductor, int here, Said said, std::optional<int> local_world = 2) {
  for (int i = 0; i < here; ++i) {
    HelloMessage hello;
    hello.pid = 100 + i;
    hello.rank = i;
    hello.world = 4;
    if (said == Said::local_world) hello.local_world = local_world;
    hello.distributed = said == Said::distributed;
    conductor.receive(i, hello, 0);
  }
}

/// Of two ranks, which have been told to go on at the start of their first epoch.
Conductor within_an_epoch() {
  Conductor conductor = made(60);
  join(conductor, 2);
  conductor.receive(0, CheckpointMessage{}, 0);
  CHECK(conductor.receive(1, CheckpointMessage{}, 0).size() == 2);
  return conductor;
}

CheckpointMessage checkpoint(CheckpointMessage::Why why) {
  CheckpointMessage message;
  message.why = why;
  return message;
}

void name_loader(Conductor& conductor, int member) { conductor.receive(member, LoaderMessage{}, 0); }

/// What the conductor says once ranks had time to come; "accepted" where it goes on.
std::string ended_with(Conductor& conductor) {
  conductor.tick(to_nanoseconds(1));
  conductor.tick(to_nanoseconds(10));
  return message_of<Error>([&] { conductor.tick(to_nanoseconds(12)); });
}

}  // namespace

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

TEST_CASE("a second training in the same command is refused by name, whether the first has ended or not") {
  for (const bool ended : {false, true}) {
    Conductor conductor = made(60);
    join(conductor, 1);
    conductor.receive(0, CheckpointMessage{}, 0);
    if (ended) conductor.leave(0, 1);
    HelloMessage hello;
    hello.pid = 200;
    conductor.receive(1, hello, 2);
    CHECK(says(message_of<Error>([&] { conductor.receive(1, LoaderMessage{}, 2); }), "process 200 trains, too, after process 100"));
  }
}

TEST_CASE("a rank that keeps the others waiting is named, and one that ends, too") {
  Training training;
  training.ranks = 2;
  Conductor conductor = made(60);
  join(conductor, 2);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).empty());
  CHECK(conductor.tick(to_nanoseconds(59)).empty());
  CHECK(says(message_of<Error>([&] { conductor.tick(to_nanoseconds(61)); }), "rank 1 (PID 101)"));
  CHECK(conductor.leave(1, to_nanoseconds(61)).empty());
  CHECK(says(message_of<Error>([&] { conductor.tick(to_nanoseconds(61)); }), "rank 1 (PID 101) of the training ended"));
}

TEST_CASE("ranks that ended together are named together, as which ended first is not known") {
  Conductor conductor = made(60);
  join(conductor, 2);
  CHECK(conductor.leave(0, 0).empty());
  CHECK(conductor.leave(1, 0).empty());
  CHECK(says(message_of<Error>([&] { conductor.tick(1); }), "rank 0 (PID 100) and rank 1 (PID 101) of the training ended"));
}

TEST_CASE("a rank that was killed is named, though another failed by it and ended first") {
  for (const bool helper : {false, true}) {
    Conductor conductor = made(60);
    join(conductor, 2);
    HelloMessage hello;
    hello.pid = 300;
    conductor.receive(7, hello, 0);
    ByeMessage bye;
    bye.error = "Connection reset by peer";
    conductor.receive(helper ? 7 : 0, bye, 0);
    CHECK(conductor.leave(helper ? 7 : 0, 0).empty());
    if (helper) CHECK(conductor.receive(0, ByeMessage{}, 0).empty());
    if (helper) CHECK(conductor.leave(0, 0).empty());
    CHECK(conductor.leave(1, 0).empty());
    const std::string said = message_of<Error>([&] { conductor.tick(1); });
    CHECK(says(said, "rank 1 (PID 101) of the training ended while it was profiled") != helper);
  }
}

TEST_CASE("a rank whose hook gave up ends the profile at once, so that no other waits for it in vain") {
  Conductor conductor = made(60);
  join(conductor, 2);
  HelloMessage helper;
  helper.pid = 300;
  conductor.receive(7, helper, 0);
  CHECK(conductor.receive(7, OffMessage{"a process that does not train"}, 0).empty());
  const std::string said = message_of<Error>([&] { conductor.receive(1, OffMessage{"No batch came."}, 0); });
  CHECK(says(said, "rank 1 (PID 101)"));
  CHECK(says(said, "No batch came."));
}

TEST_CASE("one rank's hang ends the profile, and what a script does between epochs may take longer") {
  Conductor conductor = made(60);
  join(conductor, 1);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).size() == 1);
  CHECK(conductor.tick(to_nanoseconds(30)).empty());
  CHECK(says(message_of<Error>([&] { conductor.tick(to_nanoseconds(90)); }), "hangs"));
  const CheckpointMessage epoch_end = checkpoint(CheckpointMessage::Why::epoch_end);
  CHECK(conductor.receive(0, epoch_end, to_nanoseconds(91)).size() == 1);
  CHECK(conductor.tick(to_nanoseconds(400)).empty());
  CHECK(says(message_of<Error>([&] { conductor.tick(to_nanoseconds(800)); }), "hangs"));
}

TEST_CASE("an epoch that ranks announce after its first step brings the wait for its first batch along") {
  Conductor conductor = made(60);
  join(conductor, 1);
  conductor.receive(0, CheckpointMessage{}, 0);
  CheckpointMessage start;
  start.between = EpochGap{to_nanoseconds(1), to_nanoseconds(13), 2, 9};
  CheckpointMessage window = checkpoint(CheckpointMessage::Why::window);
  window.window.emplace();
  window.window->compute = window.window->outside = window.window->samples = window.window->validation = window.window->ranks =
      window.window->outside_ranks = {1, 1};
  window.window->wait = {1.25, 1};
  start.window = window.window;
  conductor.receive(0, start, to_nanoseconds(13));
  conductor.receive(0, window, to_nanoseconds(15));
  const auto& gaps = conductor.training().phases.at(AttachPhase::full).gaps.at(0);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].first_batch_seconds == 1.25);
}

TEST_CASE("where one rank's epoch has ended, another goes on to the end of its own instead of waiting") {
  Conductor conductor = within_an_epoch();
  const CheckpointMessage window = checkpoint(CheckpointMessage::Why::window);
  CHECK(conductor.receive(1, window, 1).empty());
  const CheckpointMessage epoch_end = checkpoint(CheckpointMessage::Why::epoch_end);
  const auto answers = conductor.receive(0, epoch_end, 2);
  REQUIRE(answers.size() == 2);
  CHECK(std::get<RunSteps>(answers[0].answer).steps > 1000);
}

TEST_CASE("a rank at the start of its next epoch waits there while the others go on to the end of theirs") {
  Conductor conductor = within_an_epoch();
  const CheckpointMessage window = checkpoint(CheckpointMessage::Why::window);
  CHECK(conductor.receive(1, window, 1).empty());
  const auto answers = conductor.receive(0, CheckpointMessage{}, 2);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].member == 1);
  CHECK(std::get<RunSteps>(answers[0].answer).steps > 1000);
}

TEST_CASE("where one rank waits at the start of an epoch and another does not end its own, epochs that differ in length are named") {
  Conductor conductor = within_an_epoch();
  const CheckpointMessage end = checkpoint(CheckpointMessage::Why::epoch_end);
  conductor.receive(0, end, 1);
  CHECK(conductor.receive(0, CheckpointMessage{}, 2).empty());
  const std::string said = message_of<StandsStill>([&] { conductor.tick(to_nanoseconds(63)); });
  CHECK(says(said, "rank 1 (PID 101) has not ended its epoch, while rank 0"));
  CHECK(says(said, "differ in length"));
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
  conductor.receive(5, LoaderMessage{}, 1);
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
  conductor.receive(0, LoaderMessage{}, 0);
  CHECK(conductor.receive(0, CheckpointMessage{}, 0).empty());
  CHECK(conductor.tick(to_nanoseconds(5)).empty());
  CHECK(conductor.tick(to_nanoseconds(11)).size() == 1);
}

TEST_CASE("ranks on other servers are an error that says how many there are and what to do, whether or not a step was taken") {
  for (const Said said : {Said::local_world, Said::distributed}) {
    for (const bool stepped : {false, true}) {
      CAPTURE(static_cast<int>(said));
      CAPTURE(stepped);
      Conductor conductor = made(60);
      join_some(conductor, 2, said);
      for (int i = 0; stepped && i < 2; ++i) {
        name_loader(conductor, i);
        CHECK(conductor.receive(i, CheckpointMessage{}, 0).empty());
      }
      const std::string error = ended_with(conductor);
      CHECK(says(error, "4 ranks, and 2 of them are processes of this command"));
      CHECK(says(error, "2 are elsewhere, on other servers"));
      CHECK(says(error, "torchrun --nnodes 1"));
    }
  }
}

TEST_CASE("ranks that follow, that start late or that only the environment of a job promises are none of another server") {
  Conductor followers = made(60);
  join_some(followers, 4, Said::distributed);
  name_loader(followers, 0);
  CHECK(followers.receive(0, CheckpointMessage{}, 0).empty());
  followers.tick(to_nanoseconds(5));
  CHECK(followers.tick(to_nanoseconds(11)).size() == 1);

  Conductor late = made(60);
  join_some(late, 2, Said::distributed);
  late.tick(to_nanoseconds(1));
  late.tick(to_nanoseconds(9));
  join_some(late, 3, Said::distributed);
  CHECK(late.tick(to_nanoseconds(12)).empty());
  join_some(late, 4, Said::distributed);
  CHECK(late.tick(to_nanoseconds(30)).empty());

  Conductor starting = made(60);
  join_some(starting, 2, Said::local_world, 3);
  CHECK(ended_with(starting) == "accepted");

  Conductor job = made(60);
  join_some(job, 1, Said::nothing);
  name_loader(job, 0);
  CHECK(job.receive(0, CheckpointMessage{}, 0).empty());
  job.tick(to_nanoseconds(5));
  CHECK(job.tick(to_nanoseconds(11)).size() == 1);
}

TEST_CASE("a helper of a rank that names no ranks takes no rank's place") {
  Conductor conductor = made(60);
  join_some(conductor, 4, Said::distributed);
  HelloMessage helper;
  helper.pid = 300;
  conductor.receive(7, helper, 0);
  CHECK(conductor.training().ranks.at(0).pid == 100);
  CHECK(conductor.training().rank_count().elsewhere() == 0);
  CHECK(ended_with(conductor) == "accepted");
}
