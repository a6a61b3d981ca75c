#include "base/clock.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <new>

#include "child_process.hpp"

using namespace dsanalyze;

TEST_CASE("seconds and nanoseconds convert into each other") {
  CHECK(to_nanoseconds(1.5) == 1'500'000'000);
  CHECK(to_nanoseconds(-1e-9) == -1);
  CHECK(to_nanoseconds(1e300) == 9'000'000'000 * nanoseconds_per_second);
  CHECK(to_seconds(250'000'000) == doctest::Approx(0.25));
}

TEST_CASE("manual time moves only when someone sleeps or the test says so") {
  ManualTiming manual;
  CHECK(manual.now() == 0);
  manual.advance(5);
  CHECK(manual.now() == 5);
  manual.sleep_until(20);
  CHECK(manual.now() == 20);
  manual.sleep_until(10);
  CHECK(manual.now() == 20);
  CHECK(manual.after(1).at == 20 + nanoseconds_per_second);
}

TEST_CASE("a manual wait returns at once when the word changed and expires at its deadline otherwise") {
  ManualTiming manual;
  const std::atomic<std::uint32_t> word{7};
  CHECK(manual.wait(word, 6, {100}));
  CHECK(manual.now() == 0);
  CHECK_FALSE(manual.wait(word, 7, {100}));
  CHECK(manual.now() == 100);
  CHECK_FALSE(manual.wait(word, 7, {50}));
  CHECK(manual.now() == 100);
}

TEST_CASE("system time never goes back and a sleep does not end early") {
  const auto [clock, waiter] = system_timing();
  const Nanoseconds before = clock->now();
  waiter->sleep_until(before + 1'000'000);
  CHECK(clock->now() >= before + 1'000'000);
  waiter->sleep_until(-5);
  waiter->sleep_until(before);
}

TEST_CASE("a system wait returns true for a changed word and false after its deadline") {
  const auto [clock, waiter] = system_timing();
  const std::atomic<std::uint32_t> word{1};
  CHECK(waiter->wait(word, 0, clock->after(60)));
  const Deadline deadline{clock->now() + 1'000'000};
  while (waiter->wait(word, 1, deadline)) continue;
  CHECK(clock->now() >= deadline.at);
  CHECK_FALSE(waiter->wait(word, 1, {0}));
  CHECK_FALSE(waiter->wait(word, 1, {-1}));
}

TEST_CASE("a wake crosses processes through shared memory") {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  struct Words {
    std::atomic<std::uint32_t> ready{0};
    std::atomic<std::uint32_t> go{0};
  };
  auto* const words = new (page) Words;
  const auto [clock, waiter] = system_timing();
  const Deadline deadline = clock->after(60);
  const pid_t child = ::fork();
  if (child == 0) {
    words->ready = 1;
    waiter->wake(words->ready, 1);
    while (words->go == 0 && waiter->wait(words->go, 0, deadline)) continue;
    ::_exit(words->go == 1 ? 0 : 1);
  }
  while (words->ready == 0 && waiter->wait(words->ready, 0, deadline)) continue;
  words->go = 1;
  waiter->wake(words->go, 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  ::munmap(page, 4096);
}
