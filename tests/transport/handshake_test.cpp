#include "transport/wire/handshake.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "ranks_fixture.hpp"

namespace dsanalyze::transport {
namespace {

using Stage = Handshake::Stage;

/// Two sides that talk to one another, with what they said.
struct Talk {
  Talk(const RankFacts& dialer_facts, const RankFacts& acceptor_facts, std::uint32_t called = 0, std::uint32_t connection = 0)
      : dialer_side(own_side(dialer_facts)),
        acceptor_side(own_side(acceptor_facts)),
        dialer(Handshake::to_dial(dialer_side, called, connection, random_nonce())),
        acceptor(Handshake::to_accept(acceptor_side, random_nonce())) {}

  void run(std::size_t bytes_at_once = 256) {
    for (int turn = 0; turn < 4; ++turn) {
      carry(dialer, acceptor, from_dialer, bytes_at_once);
      carry(acceptor, dialer, from_acceptor, bytes_at_once);
    }
  }
  static void carry(Handshake& from, Handshake& to, std::vector<std::byte>& said, std::size_t bytes_at_once) {
    const std::vector<std::byte> bytes = from.output();
    said.insert(said.end(), bytes.begin(), bytes.end());
    for (std::size_t at = 0; at < bytes.size(); at += bytes_at_once)
      to.take(std::span(bytes).subspan(at, std::min(bytes_at_once, bytes.size() - at)));
  }

  OwnSide dialer_side;
  OwnSide acceptor_side;
  Handshake dialer;
  Handshake acceptor;
  std::vector<std::byte> from_dialer;
  std::vector<std::byte> from_acceptor;
};

RankFacts rank_of(std::uint32_t rank) { return test::facts_of(rank, 5); }

TEST_CASE("Two members of a job let one another in and know who they are") {
  Talk talk(rank_of(3), rank_of(1), 1, 1);
  talk.run();
  CHECK(talk.dialer.stage() == Stage::done);
  CHECK(talk.acceptor.stage() == Stage::done);
  CHECK(talk.acceptor.peer() == 3);
  CHECK(talk.acceptor.connection() == 1);
  CHECK(talk.from_dialer.size() <= 256);
  CHECK(talk.from_acceptor.size() <= 256);
  CHECK(talk.acceptor.wanted() == 0);
}

TEST_CASE("A handshake that comes byte by byte is the same") {
  Talk talk(rank_of(3), rank_of(1), 1);
  talk.run(1);
  CHECK(talk.dialer.stage() == Stage::done);
  CHECK(talk.acceptor.stage() == Stage::done);
}

TEST_CASE("Who has another key is refused by both sides and learns no more than a nonce") {
  RankFacts stranger = rank_of(3);
  JobKey key = stranger.key.bytes();
  key[31] ^= std::byte{1};
  stranger.key = SecretKey(key);
  Talk talk(stranger, rank_of(1), 1);
  talk.run();
  CHECK(talk.acceptor.stage() == Stage::refused);
  CHECK(talk.acceptor.refusal() == Refusal::wrong_proof);
  CHECK(talk.from_acceptor.size() == nonce_bytes);
  CHECK(talk.dialer.stage() != Stage::done);
}

TEST_CASE("A member with other terms is told from a stranger, on both sides") {
  const auto refusals = [](const RankFacts& other) {
    Talk talk(other, rank_of(1), 1);
    talk.run();
    return std::pair(talk.dialer.refusal(), talk.acceptor.refusal());
  };
  const std::pair both(Refusal::other_terms, Refusal::other_terms);
  RankFacts other = rank_of(3);
  other.terms = "another dataset";
  CHECK(refusals(other) == both);
  other = rank_of(3);
  other.world = 6;
  CHECK(refusals(other) == both);
  other = rank_of(3);
  other.connections_per_peer = 3;
  CHECK(refusals(other) == both);
}

TEST_CASE("Another version is refused") {
  Talk talk(rank_of(3), rank_of(1), 1);
  std::vector<std::byte> greeting = talk.dialer.output();
  greeting[8] ^= std::byte{2};
  talk.acceptor.take(greeting);
  CHECK(talk.acceptor.refusal() == Refusal::other_version);
  CHECK(talk.acceptor.output().empty());
}

TEST_CASE("What is no greeting is refused at its first byte, unanswered") {
  Talk talk(rank_of(3), rank_of(1), 1);
  const std::array<std::byte, 1> hello = {std::byte{'G'}};
  talk.acceptor.take(hello);
  CHECK(talk.acceptor.refusal() == Refusal::garbage);
  CHECK(talk.acceptor.output().empty());
}

TEST_CASE("Each changed byte of a handshake ends it") {
  Talk good(rank_of(3), rank_of(1), 1);
  good.run();
  for (std::size_t changed = 0; changed < good.from_dialer.size(); ++changed) {
    Talk talk(rank_of(3), rank_of(1), 1);
    std::vector<std::byte> said = talk.dialer.output();
    if (changed < said.size()) said[changed] ^= std::byte{1};
    talk.acceptor.take(said);
    talk.dialer.take(talk.acceptor.output());
    std::vector<std::byte> claim = talk.dialer.output();
    if (changed >= said.size() && !claim.empty()) claim[changed - said.size()] ^= std::byte{1};
    talk.acceptor.take(claim);
    CAPTURE(changed);
    CHECK(talk.acceptor.stage() == Stage::refused);
  }
  for (std::size_t changed = 0; changed < good.from_acceptor.size(); ++changed) {
    Talk talk(rank_of(3), rank_of(1), 1);
    talk.acceptor.take(talk.dialer.output());
    std::vector<std::byte> nonce = talk.acceptor.output();
    if (changed < nonce.size()) nonce[changed] ^= std::byte{1};
    talk.dialer.take(nonce);
    talk.acceptor.take(talk.dialer.output());
    std::vector<std::byte> answer = talk.acceptor.output();
    if (changed >= nonce.size() && !answer.empty()) answer[changed - nonce.size()] ^= std::byte{1};
    talk.dialer.take(answer);
    CAPTURE(changed);
    CHECK(talk.dialer.stage() != Stage::done);
  }
}

TEST_CASE("A handshake that was overheard lets no peer in when it is played back") {
  Talk heard(rank_of(3), rank_of(1), 1);
  heard.run();
  Talk talk(rank_of(3), rank_of(1), 1);
  talk.acceptor.take(heard.from_dialer);
  CHECK(talk.acceptor.refusal() == Refusal::wrong_proof);
  // Nor does the acceptor's side fool a dialer.
  talk.dialer.take(heard.from_acceptor);
  CHECK(talk.dialer.refusal() == Refusal::wrong_proof);
}

TEST_CASE("A dialer's own words, sent back to it, let no peer in") {
  const OwnSide own = own_side(rank_of(3));
  Handshake dialer = Handshake::to_dial(own, 1, 0, random_nonce());
  const std::vector<std::byte> greeting = dialer.output();
  dialer.take(std::span(greeting).last(nonce_bytes));  // its own nonce as the other's
  const std::vector<std::byte> claim = dialer.output();
  dialer.take(std::span(claim).last(2 * proof_bytes));
  CHECK(dialer.refusal() == Refusal::wrong_proof);
}

TEST_CASE("A proof for one rank is none for another") {
  // A dialer that wants rank 1 is led to rank 2, which has the key.
  Talk talk(rank_of(3), rank_of(2), 1);
  talk.run();
  CHECK(talk.acceptor.refusal() == Refusal::wrong_proof);
}

TEST_CASE("Ranks that are not called by this one do not come as it") {
  for (const std::uint32_t rank : {0U, 1U}) {
    Talk talk(rank_of(rank), rank_of(1), 1);
    talk.run();
    CAPTURE(rank);
    CHECK(talk.acceptor.refusal() == Refusal::garbage);
  }
  Talk talk(rank_of(3), rank_of(1), 1, 2);  // a connection too many
  talk.run();
  CHECK(talk.acceptor.refusal() == Refusal::garbage);
}

TEST_CASE("A rank's number is not to be read from what it says") {
  std::set<std::vector<std::byte>> claims;
  for (int i = 0; i < 3; ++i) {
    Talk talk(rank_of(3), rank_of(1), 1);
    talk.run();
    claims.insert({talk.from_dialer.begin() + 44, talk.from_dialer.begin() + 52});
  }
  CHECK(claims.size() == 3);
}

}  // namespace
}  // namespace dsanalyze::transport
