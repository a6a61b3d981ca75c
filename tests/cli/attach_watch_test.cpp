#include "cli/attach_watch.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace dsanalyze::cli {
namespace {

using Joined = AttachWatch::Joined;
using FirstEpoch = AttachWatch::FirstEpoch;

constexpr Nanoseconds attach_start = 5 * nanoseconds_per_second;

Nanoseconds after_start(double seconds) { return attach_start + to_nanoseconds(seconds); }

TEST_CASE("a command that has not attached ten seconds after the first job joined is told of once, with its process") {
  AttachWatch watch("python3 train.py", attach_start);
  const std::vector<StartedCommands::Running> both{{0, 4241}, {1, 4242}};
  const std::vector<StartedCommands::Running> one{{1, 4242}};
  CHECK(watch.look(after_start(1), Joined::none, FirstEpoch::waits_for, both).empty());
  CHECK(watch.look(after_start(3), Joined::some, FirstEpoch::waits_for, one).empty());
  CHECK(watch.look(after_start(12.9), Joined::some, FirstEpoch::waits_for, one).empty());
  CHECK(watch.look(after_start(13), Joined::some, FirstEpoch::waits_for, one) ==
        "the command of job 1 (python3 train.py; process 4242) has not attached yet, 10 s after the first job joined the group: the first epoch "
        "waits for "
        "it");
  CHECK(watch.look(after_start(14), Joined::some, FirstEpoch::waits_for, one).empty());
}

TEST_CASE("commands of which none attaches are told of half a minute after their start") {
  AttachWatch watch("./train", attach_start);
  const std::vector<StartedCommands::Running> all{{0, 7}, {1, 8}};
  CHECK(watch.look(after_start(29.9), Joined::none, FirstEpoch::waits_for, all).empty());
  CHECK(watch.look(after_start(30), Joined::none, FirstEpoch::waits_for, all) ==
        "the commands of jobs 0, 1 (./train; processes 7, 8) have not attached yet, 30 s after the start: the first epoch waits for them");
}

TEST_CASE("nothing is said where all commands attach in time, and of the first epoch only while it waits") {
  AttachWatch watch("./train", attach_start);
  CHECK(watch.look(after_start(0), Joined::some, FirstEpoch::waits_for, {}).empty());
  CHECK(watch.look(after_start(60), Joined::some, FirstEpoch::opened, {}).empty());
  const std::vector<StartedCommands::Running> late{{3, 9}};
  const std::string told = watch.look(after_start(61), Joined::some, FirstEpoch::opened, late);
  CHECK(told.find("the command of job 3") != std::string::npos);
  CHECK(told.find("first epoch") == std::string::npos);
}

}  // namespace
}  // namespace dsanalyze::cli
