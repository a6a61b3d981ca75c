#include "base/process/command_group.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "base/process/processes.hpp"
#include "base/process/spawn.hpp"
#include "sanitizers.hpp"
#include "soon.hpp"

using namespace dsanalyze;
using testing::becomes_true;

namespace {

int shell(const std::string& script) { return spawn_command({"sh", "-c", script}, {}, {}); }

bool there_is_group(int leader) { return ::kill(-leader, 0) == 0; }

}  // namespace

TEST_CASE("a group that goes takes all of its processes with it, and collects its leader" * doctest::skip(testing::fork_may_hang)) {
  int leader = 0;
  {
    const CommandGroup group([] { return shell("sleep 600 & exec sleep 600"); });
    leader = group.leader();
    CHECK(there_is_group(leader));
    CHECK_FALSE(group.ended());
  }
  CHECK(becomes_true([leader] { return !there_is_group(leader); }));
  CHECK(::waitpid(leader, nullptr, WNOHANG) == -1);
}

TEST_CASE("a leader that has ended is not collected before finish, which says how it ended and ends what it left" *
          doctest::skip(testing::fork_may_hang)) {
  CommandGroup group([] { return shell("sleep 600 & exit 7"); });
  REQUIRE(becomes_true([&] { return group.ended(); }));
  CHECK(there_is_group(group.leader()));
  const auto status = group.finish();
  REQUIRE(status.has_value());
  CHECK(WIFEXITED(*status));
  CHECK(WEXITSTATUS(*status) == 7);
  CHECK(becomes_true([&] { return !there_is_group(group.leader()); }));
  CHECK(group.ended());
}

TEST_CASE("a signal reaches a group until it is finished, and no process after that" * doctest::skip(testing::fork_may_hang)) {
  CommandGroup group([] { return shell("exec sleep 600"); });
  group.signal(SIGTERM);
  REQUIRE(becomes_true([&] { return group.ended(); }));
  const auto status = group.finish();
  REQUIRE(status.has_value());
  CHECK(WIFSIGNALED(*status));
  group.signal(SIGKILL);
  CHECK(group.ended());
}

TEST_CASE("a group that is being started is not missed when all are to be killed" * doctest::skip(testing::fork_may_hang)) {
  using namespace std::chrono_literals;
  std::atomic<int> leader = 0;
  std::jthread killer([&leader] {
    while (leader == 0) std::this_thread::yield();
    kill_started_groups();
  });
  CommandGroup group([&leader] {
    leader = shell("exec sleep 600");
    std::this_thread::sleep_for(100ms);  // a machine that has no core for this thread
    return leader.load();
  });
  CHECK(becomes_true([&] { return group.ended(); }));
}

TEST_CASE("a leader that another part of the program has collected has ended, in a way that is not known" * doctest::skip(testing::fork_may_hang)) {
  CommandGroup group([] { return shell("exit 0"); });
  ::waitpid(group.leader(), nullptr, 0);
  CHECK(group.ended());
  CHECK_FALSE(group.finish().has_value());
}
