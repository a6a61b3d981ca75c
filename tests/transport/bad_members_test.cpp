#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "fake_rank.hpp"

// Ranks that have the key and break their word: wrong bytes, wrong lengths, silence, an end in the middle.

namespace dsanalyze {
namespace {

using test::Deliveries;
using test::MadeSamples;
using test::PairWithFake;
using transport::FrameHead;
using transport::FrameKind;
using transport::RequestEntry;

/// A real rank that has asked a fake one for samples 0 to count - 1.
struct AskedPair : PairWithFake {
  explicit AskedPair(SampleId count, double peer_deadline_seconds = test::patience_seconds, Timing timing = system_timing())
      : PairWithFake(peer_deadline_seconds, timing), samples(count), deliveries(real->peers(), samples) {
    std::vector<PeerRequest> requests;
    for (SampleId sample = 0; sample < count; ++sample) requests.push_back(samples.request(sample, 1, sample));
    REQUIRE(real->peers().submit(requests).ok());
    REQUIRE(fake->hear_requests(count, number, entries));
    REQUIRE(entries.size() == count);
  }
  bool answer(SampleId sample) { return fake->say({FrameKind::reply, 0, number + sample, 0}, samples.find(sample)); }
  StatusCode status_of(SampleId sample, std::size_t completions) {
    for (const PeerCompletion& completion : deliveries.await(completions)) {
      if (completion.sample == sample) return completion.status.code;
    }
    return StatusCode::end;
  }
  /// The rank has broken its word: it is dead, and nothing is left without an end.
  void check_dead() {
    deliveries.await(entries.size());
    CHECK_FALSE(real->peers().alive(1));
    CHECK(deliveries.count() == entries.size());
    CHECK_FALSE(deliveries.has_wrong_bytes());
    CHECK(real->peers().free_places() == real->peers().capacity());
    fake->socket().drain();  // it hangs up
  }

  MadeSamples samples;
  Deliveries deliveries;
  std::uint64_t number = 0;
  std::vector<RequestEntry> entries;
};

/// The real rank has found the connection of no use: the fake one comes again and is asked for all that it still owes.
void check_asked_again(AskedPair& pair, SampleId first) {
  pair.fake->socket().drain();  // hung up
  pair.reconnect();
  REQUIRE(pair.fake->is_in());
  REQUIRE(pair.fake->hear_requests(pair.samples.count() - first, pair.number, pair.entries));
  CHECK(pair.number == first);
  CHECK(pair.entries.front().sample == first);
  for (const RequestEntry& entry : pair.entries) {
    CHECK(pair.fake->say({FrameKind::reply, 0, entry.sample, 0}, pair.samples.find(entry.sample)));
  }
  const std::size_t all = first + pair.entries.size();
  for (SampleId sample = 0; sample < all; ++sample) CHECK(pair.status_of(sample, all) == StatusCode::ok);
  CHECK(pair.deliveries.count() == all);
  CHECK_FALSE(pair.deliveries.has_wrong_bytes());
  CHECK(pair.real->peers().free_places() == pair.real->peers().capacity());
  CHECK(pair.real->peers().alive(1));
  CHECK(pair.real->counters().nonsense == 0);
  CHECK(pair.real->counters().reopened == 1);
}

TEST_CASE("A sample that comes with a wrong byte, or in a frame with a changed head, is asked for again over a new connection") {
  const std::vector<std::size_t> changed = {0, 4, 8, 16, 24, 32, transport::head_bytes, transport::head_bytes + 1};
  for (const std::size_t at : changed) {
    CAPTURE(at);
    AskedPair pair(3);
    CHECK(pair.answer(0));
    std::vector<std::byte> frame = pair.fake->frame({FrameKind::reply, 0, pair.number + 1, 0}, pair.samples.find(1));
    frame[at < frame.size() ? at : frame.size() - 1] ^= std::byte{1};
    CHECK(pair.fake->socket().send(frame));
    pair.answer(2);  // or the real rank has hung up by now
    check_asked_again(pair, 1);
  }
}

TEST_CASE("An answer that was sent before, or is sent out of its turn, is taken for none") {
  for (const bool is_repeated : {false, true}) {
    AskedPair pair(3);
    const auto first = pair.fake->frame({FrameKind::reply, 0, pair.number, 0}, pair.samples.find(0));
    const auto second = pair.fake->frame({FrameKind::reply, 0, pair.number + 1, 0}, pair.samples.find(1));
    CHECK(pair.fake->socket().send(is_repeated ? first : second));
    pair.fake->socket().send(first);  // or the real rank has hung up by now
    check_asked_again(pair, is_repeated ? 1 : 0);
  }
}

TEST_CASE("An answer of another length than was asked for is not taken, not one byte of it") {
  for (const int difference : {-1, 1, 1'000'000}) {
    AskedPair pair(2);
    const auto length = static_cast<std::uint32_t>(static_cast<int>(pair.samples.find(0).size()) + difference);
    if (length == 0) continue;
    CHECK(pair.fake->socket().send(pair.fake->summed({FrameKind::reply, length, pair.number, 0, 0}, {})));
    check_asked_again(pair, 0);
  }
}

TEST_CASE("Answers that no rank may give end the connection, and the rank is not trusted again") {
  AskedPair pair(2);
  CHECK(pair.fake->say({FrameKind::not_held, 0, pair.number + 1, 0}, {}));  // out of its turn
  pair.check_dead();
  CHECK(pair.real->counters().nonsense == 1);
  AskedPair unasked(1);
  CHECK(unasked.answer(0));
  CHECK(unasked.status_of(0, 1) == StatusCode::ok);
  CHECK(unasked.fake->say({FrameKind::not_held, 0, unasked.number + 1, 0}, {}));
  CHECK(test::comes_true([&] { return !unasked.real->peers().alive(1); }));
}

TEST_CASE("Garbage between frames is of the network, and the connection is opened again") {
  AskedPair pair(2);
  CHECK(pair.fake->socket().send(std::string(100, 'x')));
  check_asked_again(pair, 0);
}

TEST_CASE("A message that is changed, repeated or left out is not heard, and comes again where the connection is opened anew") {
  const std::vector<std::byte> part(100, std::byte{3});
  for (int wrong = 0; wrong < 3; ++wrong) {
    CAPTURE(wrong);
    PairWithFake pair;
    std::vector<std::byte> first = pair.fake->frame({FrameKind::gather, 0, 1, 0}, part);
    const std::vector<std::byte> second = pair.fake->frame({FrameKind::gather, 0, 2, 0}, part);
    if (wrong == 0) first.back() ^= std::byte{1};
    CHECK(pair.fake->socket().send(wrong == 2 ? second : first));
    if (wrong == 1) CHECK(pair.fake->socket().send(first));
    pair.fake->socket().drain();
    pair.reconnect();
    // Says all again, as a rank does that has not heard that it was heard: each counts once.
    CHECK(pair.fake->say({FrameKind::gather, 0, 1, 0}, part));
    CHECK(pair.fake->say({FrameKind::gather, 0, 2, 0}, std::vector<std::byte>(100, std::byte{4})));
    for (const std::byte value : {std::byte{3}, std::byte{4}}) {
      std::vector<std::byte> all(200);
      CHECK(pair.real->collective().gather(std::vector<std::byte>(100), all, test::in_good_time()).ok());
      CHECK(all.back() == value);
    }
    CHECK(pair.real->counters().corrupt == 1);
  }
}

TEST_CASE("A frame whose length was changed keeps nothing waiting until the deadline: the connection is opened again") {
  const std::vector<std::byte> part(100, std::byte{3});
  for (const std::uint32_t longer : {1U, 1U << 20U}) {
    CAPTURE(longer);
    test::MovedClock clock;
    PairWithFake pair(30, {&clock, system_timing().waiter});
    REQUIRE(pair.is_served());
    std::vector<std::byte> changed = pair.fake->frame({FrameKind::gather, 0, 2, 0}, part);
    const auto length = static_cast<std::uint32_t>(part.size()) + longer;
    std::memcpy(changed.data() + sizeof(std::uint32_t), &length, sizeof length);
    CHECK(pair.fake->socket().send(changed));
    clock.move(16);
    pair.fake->socket().drain();
    pair.reconnect();
    CHECK(pair.fake->say({FrameKind::gather, 0, 1, 0}, {}));
    CHECK(pair.fake->say({FrameKind::gather, 0, 2, 0}, part));
    std::vector<std::byte> all(200);
    CHECK(pair.real->collective().gather(std::vector<std::byte>(100), all, test::in_good_time()).ok());
    CHECK(pair.real->peers().alive(1));
  }
}

TEST_CASE("What a rank said and was not heard to say, it says again over a new connection, once and in order") {
  PairWithFake pair;
  const auto hears = [&pair](std::uint64_t number) {
    FrameHead head;
    std::vector<std::byte> bytes;
    REQUIRE(pair.fake->hear(head, bytes));
    CHECK(head.kind == FrameKind::gather);
    CHECK(head.said == number + 1);  // the first message said which process it is
    CHECK(bytes.front() == static_cast<std::byte>(number));
  };
  for (int round = 1; round <= 3; ++round) {
    std::array<std::byte, 2> all{};
    const auto mine = static_cast<std::byte>(round);
    // The other's part does not come: what is said counts.
    CHECK(pair.real->collective().gather(std::span(&mine, 1), all, system_timing().clock->after(0)).code == StatusCode::timeout);
    hears(static_cast<std::uint64_t>(round));
  }
  pair.fake->acknowledge(2);
  CHECK(pair.fake->say({FrameKind::heartbeat, 0, 0, 0}, {}));
  pair.fake->socket().close_when_read();
  pair.reconnect();
  hears(2);
  hears(3);
}

TEST_CASE("A rank that hangs up in the middle of an answer and does not come again leaves io, and no wrong bytes") {
  test::MovedClock clock;
  AskedPair pair(2, 30, {&clock, system_timing().waiter});
  const auto frame = pair.fake->frame({FrameKind::reply, 0, pair.number, 0}, pair.samples.find(0));
  CHECK(pair.fake->socket().send(std::span(frame).first(frame.size() / 2)));
  pair.fake->socket().close();
  CHECK(pair.real->peers().alive(1));
  clock.move(31);
  for (const SampleId sample : {0U, 1U}) CHECK(pair.status_of(sample, 2) != StatusCode::ok);
  CHECK_FALSE(pair.real->peers().alive(1));
  CHECK_FALSE(pair.deliveries.has_wrong_bytes());
}

TEST_CASE("What is not known to be a rank's own keeps it alive no longer than it takes at the least rate") {
  test::MovedClock clock;
  PairWithFake pair(30, {&clock, system_timing().waiter});
  REQUIRE(pair.is_served());
  // A head that anybody could have made up, and a part of what it announces.
  const transport::HeadBytes head = transport::write_head({FrameKind::gather, static_cast<std::uint32_t>(transport::most_gathered), 1, 1, 0});
  std::vector<std::byte> begun(head.begin(), head.end());
  begun.resize(transport::head_bytes + 1000);
  CHECK(pair.fake->socket().send(begun));
  clock.move(31);
  const std::vector<std::byte> more(100);
  CHECK(test::comes_true([&] {
    pair.fake->socket().send(more);
    return !pair.real->peers().alive(1);
  }));
}

TEST_CASE("A rank of this machine whose process has ended is lost at once, one that only hangs up is not") {
  for (const bool has_ended : {false, true}) {
    CAPTURE(has_ended);
    PairWithFake pair;
    auto process = *transport::own_process();
    if (has_ended) --process.started;
    CHECK(pair.fake->say({FrameKind::process, 0, 0, 0}, transport::write_process(process)));
    CHECK(pair.fake->say({FrameKind::gather, 0, 1, 0}, {}));
    CHECK(pair.real->collective().barrier(test::in_good_time()).ok());
    pair.fake->socket().close();
    if (has_ended) {
      CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
    } else {
      pair.reconnect();
      CHECK(pair.fake->is_in());
      CHECK(pair.real->peers().alive(1));
    }
  }
}

TEST_CASE("A rank that says that it leaves is lost at once") {
  AskedPair pair(2);
  CHECK(pair.fake->say({FrameKind::leaving, 0, 0, 0}, {}));
  CHECK(pair.status_of(0, 2) == StatusCode::io);
  CHECK(pair.status_of(1, 2) == StatusCode::io);
  CHECK_FALSE(pair.real->peers().alive(1));
  CHECK(pair.real->given_up().empty());
}

TEST_CASE("An answer that comes byte by byte comes") {
  AskedPair pair(1);
  const auto bytes = pair.samples.find(0);
  const std::vector<std::byte> frame = pair.fake->frame({FrameKind::reply, 0, pair.number, 0}, bytes);
  for (const std::byte& byte : frame) CHECK(pair.fake->socket().send(std::span(&byte, 1)));
  CHECK(pair.status_of(0, 1) == StatusCode::ok);
  CHECK_FALSE(pair.deliveries.has_wrong_bytes());
}

TEST_CASE("A rank that is silent for its deadline is dead, and not before") {
  test::MovedClock clock;
  AskedPair pair(3, 30, {&clock, system_timing().waiter});
  CHECK(pair.answer(0));
  CHECK(pair.status_of(0, 1) == StatusCode::ok);
  CHECK(pair.real->peers().alive(1));
  clock.move(31);
  CHECK(pair.status_of(1, 3) == StatusCode::timeout);
  pair.check_dead();
}

/// Says that it lives, all the time.
class Heart {
 public:
  explicit Heart(test::FakeRank& fake)
      : m_thread([this, &fake] {
          while (!m_is_over && fake.say({FrameKind::heartbeat, 0, 0, 0}, {})) {
            system_timing().waiter->sleep_until(system_timing().clock->after(0.005).at);
          }
        }) {}
  ~Heart() { m_is_over = true; }
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

 private:
  std::atomic<bool> m_is_over{false};
  std::jthread m_thread;
};

TEST_CASE("A rank that lives and never answers is dead after its deadline") {
  test::MovedClock clock;
  AskedPair pair(3, 300, {&clock, system_timing().waiter});
  clock.move(200);
  // It is heard by now, and may still answer.
  CHECK(pair.fake->say({FrameKind::gather, 0, 1, 0}, {}));
  CHECK(pair.real->collective().barrier(test::in_good_time()).ok());
  CHECK(pair.real->peers().alive(1));
  clock.move(200);
  CHECK(pair.status_of(0, 3) == StatusCode::timeout);
  pair.check_dead();
}

TEST_CASE("A rank that lives and asks without taking what it gets is dead after its deadline, and what it asked for is free") {
  PairWithFake pair(0.5, system_timing(), 4096);
  const MadeSamples samples(1, 1U << 20U);
  pair.real->serve(&samples);
  std::vector<std::byte> entries(transport::most_entries * transport::entry_bytes);
  for (std::size_t i = 0; i < transport::most_entries; ++i) {
    transport::write_entry({0, static_cast<std::uint32_t>(samples.find(0).size())},
                           std::span<std::byte, transport::entry_bytes>(entries.data() + i * transport::entry_bytes, transport::entry_bytes));
  }
  CHECK(pair.fake->say({FrameKind::request, 0, 0, 0}, entries));
  const Heart heart(*pair.fake);
  CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
  pair.real->serve(nullptr);
  CHECK(pair.real->counters().requests_served < transport::most_entries);
}

TEST_CASE("A rank that asks for more than may be unanswered is cut off") {
  PairWithFake pair(test::patience_seconds, system_timing(), 4096);
  const MadeSamples samples(1, 1U << 20U);
  pair.real->serve(&samples);
  std::vector<std::byte> entries(transport::most_entries * transport::entry_bytes);
  for (std::size_t i = 0; i < transport::most_entries; ++i) {
    transport::write_entry({0, static_cast<std::uint32_t>(samples.find(0).size())},
                           std::span<std::byte, transport::entry_bytes>(entries.data() + i * transport::entry_bytes, transport::entry_bytes));
  }
  for (std::uint64_t i = 0; i < 8; ++i) pair.fake->say({FrameKind::request, 0, i * transport::most_entries, 0}, entries);
  CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
  CHECK(pair.real->counters().nonsense == 1);
}

TEST_CASE("Samples are asked for by number alone") {
  AskedPair pair(20);
  for (SampleId sample = 0; sample < 20; ++sample) {
    CHECK(pair.entries[sample].sample == sample);
    CHECK(pair.entries[sample].bytes == pair.samples.find(sample).size());
  }
}

TEST_CASE("One message asks for all that there is to ask for") {
  PairWithFake pair;
  const MadeSamples samples(21);
  std::vector<PeerRequest> requests;
  for (SampleId sample = 0; sample < 20; ++sample) requests.push_back(samples.request(sample, 1, sample));
  // Submitted by the thread that asks, which so finds all of them.
  std::atomic<bool> is_submitted{false};
  pair.real->peers().deliver_to([&](std::span<const PeerCompletion>) {
    if (!is_submitted.exchange(true)) CHECK(pair.real->peers().submit(requests).ok());
  });
  REQUIRE(pair.real->peers().submit(std::array{samples.request(20, 1)}).ok());
  std::uint64_t number = 0;
  std::vector<RequestEntry> entries;
  REQUIRE(pair.fake->hear_requests(1, number, entries));
  CHECK(pair.fake->say({FrameKind::reply, 0, number, 0}, samples.find(20)));
  FrameHead head;
  std::vector<std::byte> bytes;
  REQUIRE(pair.fake->hear(head, bytes));
  CHECK(head.kind == FrameKind::request);
  CHECK(bytes.size() == 20 * transport::entry_bytes);
  pair.real->peers().deliver_to({});
}

TEST_CASE("A rank that was lost is not let in again, and is told that the other goes on without it") {
  test::MovedClock clock;
  PairWithFake pair(30, {&clock, system_timing().waiter});
  REQUIRE(pair.is_served());
  clock.move(31);
  CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
  CHECK(pair.real->agree_alive(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{0});
  for (const bool opens_again : {false, true}) {
    const test::FakeRank again(pair.fake_facts, pair.address, 0, opens_again);
    CHECK_FALSE(again.is_in());
    CHECK(again.given_up() == transport::Death::silent);
  }
  CHECK(test::comes_true([&] { return pair.real->counters().refused[static_cast<std::size_t>(Refusal::dead)] == 2; }));
}

TEST_CASE("A second process of a rank that is there is not let in") {
  PairWithFake pair;
  CHECK(pair.fake->say({FrameKind::gather, 0, 1, 0}, {}));
  CHECK(pair.real->collective().barrier(test::in_good_time()).ok());
  const test::FakeRank second(pair.fake_facts, pair.address);
  CHECK_FALSE(second.is_in());
  CHECK(pair.real->peers().alive(1));
  CHECK(pair.real->counters().refused[static_cast<std::size_t>(Refusal::known)] > 0);
}

TEST_CASE("A rank that has not heard that it was let in is let in when it asks again") {
  PairWithFake pair;
  const test::FakeRank again(pair.fake_facts, pair.address);
  CHECK(again.is_in());
  CHECK(pair.real->peers().alive(1));
}

}  // namespace
}  // namespace dsanalyze
