#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

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
    REQUIRE(fake->hear_requests(number, entries));
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

TEST_CASE("A sample that comes with a wrong byte is corrupt, and the others come") {
  AskedPair pair(3);
  CHECK(pair.answer(0));
  std::vector<std::byte> wrong(pair.samples.find(1).begin(), pair.samples.find(1).end());
  const std::uint64_t checksum = transport::checksum_of(wrong, pair.number + 1);
  wrong.back() ^= std::byte{1};
  CHECK(pair.fake->say_as_is({FrameKind::reply, static_cast<std::uint32_t>(wrong.size()), pair.number + 1, checksum}, wrong));
  CHECK(pair.answer(2));
  CHECK(pair.status_of(0, 3) == StatusCode::ok);
  CHECK(pair.status_of(1, 3) == StatusCode::corrupt);
  CHECK(pair.status_of(2, 3) == StatusCode::ok);
  CHECK(pair.real->counters().corrupt == 1);
  CHECK(pair.real->peers().free_places() == pair.real->peers().capacity());
  CHECK(pair.real->peers().alive(1));
}

TEST_CASE("Another sample's right bytes under this one's number are corrupt") {
  AskedPair pair(2);
  std::vector<std::byte> bytes(pair.samples.find(0).begin(), pair.samples.find(0).end());
  // As if an answer to another request had been sent again.
  CHECK(pair.fake->say_as_is(
      {FrameKind::reply, static_cast<std::uint32_t>(bytes.size()), pair.number, transport::checksum_of(bytes, pair.number + 1)}, bytes));
  CHECK(pair.status_of(0, 1) == StatusCode::corrupt);
}

TEST_CASE("An answer of another length than was asked for ends the connection before a byte of it is taken") {
  for (const int difference : {-1, 1, 1'000'000}) {
    AskedPair pair(2);
    const auto length = static_cast<std::uint32_t>(static_cast<int>(pair.samples.find(0).size()) + difference);
    if (length == 0) continue;
    CHECK(pair.fake->say_as_is({FrameKind::reply, length, pair.number, 0}, {}));
    CHECK(pair.status_of(0, 2) == StatusCode::corrupt);
    CHECK(pair.status_of(1, 2) == StatusCode::io);
    pair.check_dead();
    CHECK(pair.real->counters().nonsense == 1);
  }
}

TEST_CASE("An answer to what was not asked ends the connection") {
  AskedPair pair(2);
  CHECK(pair.fake->say({FrameKind::reply, 0, pair.number + 1, 0}, pair.samples.find(1)));  // out of its turn
  pair.check_dead();
  AskedPair unasked(1);
  CHECK(unasked.answer(0));
  CHECK(unasked.status_of(0, 1) == StatusCode::ok);
  CHECK(unasked.fake->say({FrameKind::not_held, 0, unasked.number + 1, 0}, {}));
  CHECK(test::comes_true([&] { return !unasked.real->peers().alive(1); }));
}

TEST_CASE("Garbage between frames ends the connection") {
  AskedPair pair(2);
  CHECK(pair.fake->socket().send(std::string(100, 'x')));
  pair.check_dead();
}

TEST_CASE("A frame whose bytes are not its checksum's ends the connection") {
  AskedPair pair(1);
  const std::vector<std::byte> mask(1, std::byte{3});
  CHECK(pair.fake->say_as_is({FrameKind::mask, 1, 0, 12345}, mask));
  pair.check_dead();
}

TEST_CASE("A rank that hangs up in the middle of an answer leaves io, and no wrong bytes") {
  AskedPair pair(2);
  const auto bytes = pair.samples.find(0);
  const FrameHead head{FrameKind::reply, static_cast<std::uint32_t>(bytes.size()), pair.number, transport::checksum_of(bytes, pair.number)};
  CHECK(pair.fake->say_as_is(head, bytes.first(bytes.size() / 2)));
  pair.fake->socket().close();
  CHECK(pair.status_of(0, 2) == StatusCode::io);
  CHECK(pair.status_of(1, 2) == StatusCode::io);
  CHECK_FALSE(pair.real->peers().alive(1));
  CHECK_FALSE(pair.deliveries.has_wrong_bytes());
}

TEST_CASE("An answer that comes byte by byte comes") {
  AskedPair pair(1);
  const auto bytes = pair.samples.find(0);
  std::vector<std::byte> frame;
  const auto head =
      transport::write_head({FrameKind::reply, static_cast<std::uint32_t>(bytes.size()), pair.number, transport::checksum_of(bytes, pair.number)});
  frame.insert(frame.end(), head.begin(), head.end());
  frame.insert(frame.end(), bytes.begin(), bytes.end());
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
  AskedPair pair(3, 0.3);
  const Heart heart(*pair.fake);
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

TEST_CASE("Samples are asked for by number alone, as many at once as were submitted") {
  AskedPair pair(20);
  for (SampleId sample = 0; sample < 20; ++sample) {
    CHECK(pair.entries[sample].sample == sample);
    CHECK(pair.entries[sample].bytes == pair.samples.find(sample).size());
  }
}

TEST_CASE("A rank that was found dead is not let in again") {
  PairWithFake pair;
  pair.fake->socket().close();
  CHECK(test::comes_true([&] { return !pair.real->peers().alive(1); }));
  RankFacts facts = test::facts_of(1, 2);
  facts.connections_per_peer = 1;
  const test::FakeRank again(facts, pair.address);
  CHECK_FALSE(again.is_in());
  CHECK(pair.real->counters().refused[static_cast<std::size_t>(Refusal::dead)] == 1);
}

TEST_CASE("A rank that is there already is not let in a second time") {
  PairWithFake pair;
  RankFacts facts = test::facts_of(1, 2);
  facts.connections_per_peer = 1;
  const test::FakeRank second(facts, pair.address);
  CHECK_FALSE(second.is_in());
  CHECK(pair.real->peers().alive(1));
  CHECK(pair.real->counters().refused[static_cast<std::size_t>(Refusal::known)] == 1);
}

}  // namespace
}  // namespace dsanalyze
