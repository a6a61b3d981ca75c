#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "fake_rank.hpp"

// Processes that are no members of the job and connect all the same.

namespace dsanalyze {
namespace {

using test::FakeRank;
using test::PairWithFake;
using test::PlainSocket;

std::uint64_t refused(const Ranks& ranks, Refusal refusal) { return ranks.counters().refused[static_cast<std::size_t>(refusal)]; }

/// The bytes that a stranger gets to see for what it says.
std::size_t answer_to(const std::string& address, std::span<const std::byte> bytes) {
  PlainSocket socket(address);
  CHECK(socket.is_connected());
  socket.send(bytes);
  return socket.drain();
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> greeting() {
  const auto own = transport::own_side(test::facts_of(1, 2));
  return transport::Handshake::to_dial(own, 0, 0, transport::random_nonce()).output();
}

TEST_CASE("Strangers that send garbage get no answer") {
  const PairWithFake pair;
  CHECK(answer_to(pair.address, bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) == 0);
  CHECK(answer_to(pair.address, std::vector<std::byte>(100'000, std::byte{0xff})) == 0);
  const transport::FrameHead head{transport::FrameKind::request, 8, 0, 0};
  CHECK(answer_to(pair.address, transport::write_head(head)) == 0);
  CHECK(test::comes_true([&] { return refused(*pair.real, Refusal::garbage) == 3; }));
  CHECK(pair.real->peers().alive(1));
}

TEST_CASE("A greeting alone gets a nonce, and one with garbage behind it no more") {
  const PairWithFake pair;
  std::vector<std::byte> bytes = greeting();
  bytes.resize(bytes.size() + 1000, std::byte{1});
  CHECK(answer_to(pair.address, bytes) <= transport::nonce_bytes);
  CHECK(test::comes_true([&] { return refused(*pair.real, Refusal::wrong_proof) == 1; }));
}

TEST_CASE("Strangers that hang up at any byte of a handshake are counted and do no harm") {
  const PairWithFake pair;
  const std::vector<std::byte> bytes = greeting();
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    PlainSocket socket(pair.address);
    socket.send(std::span(bytes).first(length));
  }
  CHECK(test::comes_true([&] { return refused(*pair.real, Refusal::closed) == bytes.size() + 1; }));
  CHECK(pair.real->peers().alive(1));
}

TEST_CASE("Wrong keys, other terms and other versions are refused and told apart") {
  const PairWithFake pair;
  RankFacts facts = test::facts_of(1, 2);
  facts.connections_per_peer = 1;
  facts.key = make_key();
  CHECK_FALSE(FakeRank(facts, pair.address).is_in());
  facts = test::facts_of(1, 2);
  facts.connections_per_peer = 1;
  facts.terms = "another dataset";
  CHECK_FALSE(FakeRank(facts, pair.address).is_in());
  std::vector<std::byte> bytes = greeting();
  bytes[8] ^= std::byte{4};
  CHECK(answer_to(pair.address, bytes) == 0);
  CHECK(test::comes_true([&] { return pair.real->counters().strangers() == 3; }));
  CHECK(refused(*pair.real, Refusal::wrong_proof) == 1);
  CHECK(refused(*pair.real, Refusal::other_terms) == 1);
  CHECK(refused(*pair.real, Refusal::other_version) == 1);
}

TEST_CASE("A handshake that was overheard lets no peer in") {
  Listener listener;
  const std::string address = listener.address();
  RankFacts facts = test::facts_of(0, 3);  // one more rank is awaited, so the place would be free
  facts.connections_per_peer = 1;
  facts.setup_seconds = 1;
  auto joining = std::async(std::launch::async, [&listener, facts, &address] {
    return join_ranks(std::move(listener), facts, {address, address, address}, system_timing());
  });
  RankFacts member = facts;
  member.rank = 1;
  const auto own = transport::own_side(member);
  auto shake = transport::Handshake::to_dial(own, 0, 0, transport::random_nonce());
  std::vector<std::byte> said = shake.output();
  {
    PlainSocket socket(address);
    socket.send(said);
    shake.take(socket.receive_all(transport::nonce_bytes));
    const std::vector<std::byte> claim = shake.output();
    said.insert(said.end(), claim.begin(), claim.end());
    // Overheard, and held back.
  }
  CHECK(answer_to(address, said) == transport::nonce_bytes);
  CHECK_THROWS_AS(joining.get(), Error);
}

TEST_CASE("Strangers that say nothing are gone after two seconds, and are not waited for meanwhile") {
  test::MovedClock clock;
  const PairWithFake pair(test::patience_seconds, {&clock, system_timing().waiter});
  PlainSocket silent(pair.address);
  PlainSocket slow(pair.address);
  slow.send("dsa");
  // Served in between.
  CHECK(answer_to(pair.address, bytes_of("x")) == 0);
  CHECK(refused(*pair.real, Refusal::too_slow) == 0);
  clock.move(2.5);
  CHECK(silent.drain() == 0);
  CHECK(slow.drain() == 0);
  CHECK(refused(*pair.real, Refusal::too_slow) == 2);
  CHECK(pair.real->peers().alive(1));
}

TEST_CASE("Of too many strangers some are dropped, and members get in") {
  Listener listener;
  const std::string address = listener.address();
  RankFacts facts = test::facts_of(0, 2);
  facts.connections_per_peer = 1;
  auto joining = std::async(std::launch::async, [&listener, facts, &address] {
    return join_ranks(std::move(listener), facts, {address, address}, system_timing());
  });
  std::vector<std::unique_ptr<PlainSocket>> strangers;
  strangers.reserve(200);
  for (int i = 0; i < 200; ++i) strangers.push_back(std::make_unique<PlainSocket>(address));
  facts.rank = 1;
  std::unique_ptr<FakeRank> member;
  CHECK(test::comes_true([&] {
    member = std::make_unique<FakeRank>(facts, address);
    return member->is_in();
  }));
  const auto ranks = joining.get();
  CHECK(refused(*ranks, Refusal::crowded) > 0);
  member.reset();
}

TEST_CASE("While thousands of strangers connect, members are served") {
  const test::MadeSamples samples(100);
  const PairWithFake pair;
  pair.real->serve(&samples);
  std::jthread strangers([&] {
    const std::vector<std::byte> bytes = greeting();
    for (int i = 0; i < 3000; ++i) {
      PlainSocket socket(pair.address);
      if (i % 3 == 0) socket.send("garbage");
      if (i % 3 == 1) socket.send(bytes);
    }
  });
  std::array<std::byte, transport::entry_bytes> entry;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    const auto sample = static_cast<SampleId>(number % 100);
    transport::write_entry({sample, static_cast<std::uint32_t>(samples.find(sample).size())}, entry);
    CHECK(pair.fake->say({transport::FrameKind::request, 0, number, 0}, entry));
    transport::FrameHead head;
    std::vector<std::byte> bytes;
    REQUIRE(pair.fake->hear(head, bytes));
    CHECK(head.number == number);
    CHECK(std::ranges::equal(bytes, samples.find(sample)));
  }
  strangers.join();
  CHECK(test::comes_true([&] { return pair.real->counters().strangers() == 3000; }));
  CHECK(pair.real->counters().requests_served == 1000);
}

}  // namespace
}  // namespace dsanalyze
