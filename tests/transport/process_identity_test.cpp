#include "transport/wire/wire.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "../base/sanitizers.hpp"

namespace dsanalyze::transport {
namespace {

TEST_CASE("A process is gone once it has ended, before its parent has heard and after, and not while it is stopped" *
          doctest::skip(testing::threads_only)) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    while (true) ::pause();
  }
  const auto own = own_process();
  REQUIRE(own);
  CHECK_FALSE(is_gone(*own));
  // Forked at another time; told by its number and namespace alone it is this one's.
  ProcessIdentity other = *own;
  other.pid = static_cast<std::uint64_t>(child);
  ProcessIdentity identity = other;
  for (; is_gone(identity) && identity.started < own->started + 1'000'000; ++identity.started) {
  }
  CHECK_FALSE(is_gone(identity));
  ::kill(child, SIGSTOP);
  CHECK_FALSE(is_gone(identity));
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(is_gone(identity));
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(is_gone(identity));
}

TEST_CASE("Of a process in another namespace nothing is known, and a number that is used again is another process") {
  const auto own = own_process();
  REQUIRE(own);
  ProcessIdentity elsewhere = *own;
  ++elsewhere.pid_namespace;
  elsewhere.pid = 1U << 30U;
  CHECK_FALSE(is_gone(elsewhere));
  ProcessIdentity earlier = *own;
  --earlier.started;
  CHECK(is_gone(earlier));
  CHECK(parse_process(write_process(*own)) == *own);
}

}  // namespace
}  // namespace dsanalyze::transport
