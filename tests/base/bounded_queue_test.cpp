#include "base/bounded_queue.hpp"

#include <doctest/doctest.h>

#include <array>
#include <numeric>
#include <thread>

#include "soon.hpp"

using namespace dsanalyze;
using testing::soon;

TEST_CASE("items come out in the order in which they went in, around the ring's end too") {
  ManualTiming manual;
  BoundedQueue<int> queue(3, manual.timing());
  std::array<int, 2> out{};
  for (int round = 0; round < 5; ++round) {
    CHECK(queue.push(std::array{2 * round, 2 * round + 1}, {0}));
    REQUIRE(queue.pop(out, {0}) == 2);
    CHECK(out == std::array{2 * round, 2 * round + 1});
  }
}

TEST_CASE("a push past the capacity gives up at its deadline and says how many went in") {
  ManualTiming manual;
  BoundedQueue<int> queue(2, manual.timing());
  std::size_t pushed = 9;
  CHECK_FALSE(queue.push(std::array{1, 2, 3}, {500}, &pushed));
  CHECK(pushed == 2);
  CHECK(queue.size() == 2);
  CHECK(manual.now() == 500);
  CHECK_FALSE(queue.push(std::array{4}, {0}, &pushed));
  CHECK(pushed == 0);
  CHECK(manual.now() == 500);
}

TEST_CASE("a pop of an empty queue gives up at its deadline; one in the past never blocks") {
  ManualTiming manual;
  BoundedQueue<int> queue(2, manual.timing());
  std::array<int, 2> out{};
  CHECK(queue.pop(out, {0}) == 0);
  CHECK(manual.now() == 0);
  CHECK(queue.pop(out, {300}) == 0);
  CHECK(manual.now() == 300);
  CHECK(queue.pop(std::span<int>(), {900}) == 0);
  CHECK(manual.now() == 300);
}

TEST_CASE("a deadline in the past still takes and gives what it can at once") {
  ManualTiming manual;
  manual.advance(1000);
  BoundedQueue<int> queue(2, manual.timing());
  CHECK(queue.push(std::array{1}, {0}));
  std::array<int, 2> out{};
  CHECK(queue.pop(out, {0}) == 1);
}

TEST_CASE("a consumer leaves the others their part but takes at least one") {
  ManualTiming manual;
  BoundedQueue<int> queue(10, manual.timing());
  CHECK(queue.push(std::array{1, 2, 3, 4, 5, 6, 7, 8}, {0}));
  std::array<int, 10> out{};
  CHECK(queue.pop(out, {0}, 4) == 2);
  CHECK(queue.pop(std::span(out).first(1), {0}, 2) == 1);
  CHECK(queue.pop(out, {0}, 100) == 1);
  CHECK(queue.pop(out, {0}) == 4);
}

TEST_CASE("a closed queue takes nothing more and gives what it has") {
  ManualTiming manual;
  BoundedQueue<int> queue(4, manual.timing());
  CHECK(queue.push(std::array{1, 2}, {0}));
  queue.close();
  CHECK(queue.closed());
  std::size_t pushed = 9;
  CHECK_FALSE(queue.push(std::array{3}, {1000}, &pushed));
  CHECK(pushed == 0);
  std::array<int, 4> out{};
  CHECK(queue.pop(out, {1000}) == 2);
  CHECK(queue.pop(out, {1000}) == 0);
  CHECK(manual.now() == 0);
}

TEST_CASE("closing wakes everyone who waits") {
  BoundedQueue<int> full(1, system_timing());
  BoundedQueue<int> empty(1, system_timing());
  REQUIRE(full.push(std::array{1}, soon()));
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&] { refused += full.push(std::array{2}, soon()) ? 0 : 1; });
    threads.emplace_back([&] {
      std::array<int, 1> out{};
      refused += empty.pop(out, soon()) == 0 ? 1 : 0;
    });
  }
  full.close();
  empty.close();
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == 6);
}

TEST_CASE("many producers and consumers move every item exactly once, whatever the capacity") {
  for (const std::size_t capacity : {1U, 3U, 64U}) {
    CAPTURE(capacity);
    constexpr std::size_t producers = 3;
    constexpr std::size_t consumers = 4;
    constexpr std::size_t each = 4000;
    BoundedQueue<std::uint32_t> queue(capacity, system_timing());
    std::vector<std::atomic<std::uint32_t>> seen(producers * each);
    std::atomic<bool> in_order{true};
    std::vector<std::thread> producing;
    std::vector<std::thread> consuming;
    for (std::size_t producer = 0; producer < producers; ++producer) {
      producing.emplace_back([&, producer] {
        std::array<std::uint32_t, 7> group{};
        for (std::size_t next = 0; next < each;) {
          const std::size_t count = std::min(group.size(), each - next);
          std::iota(group.begin(), group.end(), static_cast<std::uint32_t>(producer * each + next));
          if (!queue.push(std::span(group).first(count), soon())) return;
          next += count;
        }
      });
    }
    for (std::size_t consumer = 0; consumer < consumers; ++consumer) {
      consuming.emplace_back([&] {
        std::array<std::uint32_t, 5> out{};
        std::array<std::int64_t, producers> last{-1, -1, -1};
        while (const std::size_t count = queue.pop(out, soon(), consumers)) {
          for (const std::uint32_t item : std::span(out).first(count)) {
            ++seen[item];
            auto& before = last.at(item / each);
            if (static_cast<std::int64_t>(item) <= before) in_order = false;
            before = item;
          }
        }
      });
    }
    for (std::thread& thread : producing) thread.join();
    queue.close();
    for (std::thread& thread : consuming) thread.join();
    CHECK(std::ranges::all_of(seen, [](const auto& count) { return count == 1; }));
    CHECK(in_order);
  }
}

TEST_CASE("a signal given after the ticket was taken is never waited for") {
  ManualTiming manual;
  Signal signal;
  const auto ticket = signal.ticket();
  signal.notify(manual, 1);
  CHECK(signal.wait(manual, ticket, {100}));
  CHECK(manual.now() == 0);
  CHECK_FALSE(signal.wait(manual, signal.ticket(), {100}));
}
