#include "transport/wire/connection_queue.hpp"

#include <doctest/doctest.h>

#include <latch>
#include <thread>
#include <vector>

namespace dsanalyze::transport {
namespace {

/// Asks for samples `first` to `first` + `count` - 1, each with its own number as its place.
void ask_for(ConnectionQueue& queue, SampleId first, std::uint32_t count) {
  for (SampleId sample = first; sample < first + count; ++sample) queue.ask({0, sample, 100, 1}, static_cast<std::uint32_t>(sample), 7);
}

std::vector<SampleId> take_samples(ConnectionQueue& queue, std::size_t most) {
  Ring<AskedSample> ring;
  queue.take_asked(most, ring);
  std::vector<SampleId> samples;
  while (!ring.empty()) {
    const AskedSample asked = ring.pop();
    CHECK(asked.number == asked.request.sample);
    CHECK(asked.place == asked.request.sample);
    CHECK(asked.at == 7);
    CHECK_FALSE(asked.is_cancelled);
    samples.push_back(asked.request.sample);
  }
  return samples;
}

std::vector<std::uint64_t> take_numbers_said(ConnectionQueue& queue) {
  std::vector<std::uint64_t> numbers;
  queue.take_said([&](const Message& message) { numbers.push_back(message.number); });
  return numbers;
}

TEST_CASE("Samples leave a connection's queue in their order with ascending numbers, at most as many at once as were asked of it") {
  ConnectionQueue queue;
  CHECK(take_samples(queue, 5).empty());
  ask_for(queue, 0, 40);
  CHECK(take_samples(queue, 0).empty());
  CHECK(take_samples(queue, 3) == std::vector<SampleId>{0, 1, 2});
  CHECK(queue.pop()->number == 3);
  ask_for(queue, 40, 2);
  CHECK(take_samples(queue, 2) == std::vector<SampleId>{4, 5});
  CHECK(take_samples(queue, 1000).size() == 36);
  CHECK_FALSE(queue.pop());
  // Numbers count on, though the queue was empty.
  ask_for(queue, 42, 1);
  CHECK(take_samples(queue, 1) == std::vector<SampleId>{42});
}

TEST_CASE("What was asked for before a cancel is cancelled, what is asked for later is not") {
  ConnectionQueue queue;
  ask_for(queue, 0, 4);
  std::uint64_t before = 99;
  CHECK_FALSE(queue.pop_cancelled(before));
  CHECK(before == 0);
  CHECK(take_samples(queue, 1) == std::vector<SampleId>{0});
  queue.cancel_all();
  ask_for(queue, 4, 2);
  for (const std::uint64_t number : {1U, 2U, 3U}) {
    const auto cancelled = queue.pop_cancelled(before);
    REQUIRE(cancelled);
    CHECK(cancelled->number == number);
    CHECK(before == 4);  // so is what was taken before: its number is below
  }
  CHECK_FALSE(queue.pop_cancelled(before));
  CHECK(before == 4);
  CHECK(take_samples(queue, 9) == std::vector<SampleId>{4, 5});
  CHECK_FALSE(queue.pop_cancelled(before));
}

TEST_CASE("What is said over a connection is heard in its order, and once it is lost nothing is") {
  ConnectionQueue queue;
  for (const std::uint64_t number : {1U, 2U}) queue.say({FrameKind::gather, number, 0, nullptr});
  CHECK(take_numbers_said(queue) == std::vector<std::uint64_t>{1, 2});
  CHECK(take_numbers_said(queue).empty());
  queue.say({FrameKind::gather, 3, 0, nullptr});
  queue.lose();
  queue.say({FrameKind::gather, 4, 0, nullptr});
  CHECK(take_numbers_said(queue).empty());
  // What is asked is kept: the loop's thread completes it as failed.
  ask_for(queue, 0, 1);
  CHECK(queue.pop()->request.sample == 0);
}

TEST_CASE("A sample is unanswered from when it is asked for until it is settled, wherever it is meanwhile") {
  ConnectionQueue queue;
  CHECK(queue.unanswered() == 0);
  ask_for(queue, 0, 3);
  CHECK(queue.unanswered() == 3);
  CHECK(take_samples(queue, 2).size() == 2);
  queue.cancel_all();
  std::uint64_t before = 0;
  CHECK(queue.pop_cancelled(before));
  queue.lose();
  CHECK(queue.unanswered() == 3);
  for (const std::uint32_t left : {2U, 1U, 0U}) {
    queue.settle_one();
    CHECK(queue.unanswered() == left);
  }
}

TEST_CASE("Of what threads ask for at once nothing is lost, and each thread's samples keep their order") {
  constexpr SampleId each = 100'000;
  ConnectionQueue queue;
  Ring<AskedSample> ring;
  {
    std::latch all_are_there(3);
    const auto asks = [&](SampleId first) {
      all_are_there.arrive_and_wait();
      for (SampleId sample = first; sample < first + each; ++sample) queue.ask({0, sample, 100, 1}, 0, 0);
    };
    const std::jthread one([&] { asks(0); });
    const std::jthread other([&] { asks(each); });
    all_are_there.arrive_and_wait();
    while (ring.size() < 2 * each) queue.take_asked(7, ring);
  }
  std::vector<SampleId> next = {0, each};
  std::uint64_t number = 0;
  bool is_in_order = true;
  while (!ring.empty()) {
    const AskedSample asked = ring.pop();
    is_in_order = is_in_order && asked.number == number++ && asked.request.sample == next[asked.request.sample / each]++;
  }
  CHECK(is_in_order);
  CHECK(next == std::vector<SampleId>{each, 2 * each});
}

}  // namespace
}  // namespace dsanalyze::transport
