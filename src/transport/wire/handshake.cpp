#include "handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "wire.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::array<char, 8> magic = {'d', 's', 'a', 'R', 'a', 'n', 'k', '\n'};
constexpr std::size_t greeting_bytes = magic.size() + sizeof(std::uint32_t) + nonce_bytes;
constexpr std::size_t place_bytes = 2 * sizeof(std::uint32_t);
constexpr std::size_t claim_bytes = place_bytes + 2 * proof_bytes;
constexpr std::size_t answer_bytes = 2 * proof_bytes;

// Labels: what each keyed hash is for.
constexpr std::string_view dialer_proof = "dialer's proof";
constexpr std::string_view dialer_terms = "dialer's terms";
constexpr std::string_view acceptor_proof = "acceptor's proof";
constexpr std::string_view acceptor_terms = "acceptor's terms";
constexpr std::string_view dialer_place = "dialer's place";
constexpr std::string_view acceptor_end = "acceptor goes on without the dialer";
constexpr std::string_view dialer_frames = "dialer's frames";
constexpr std::string_view acceptor_frames = "acceptor's frames";
/// Why a rank is told that the others go on without it.
constexpr std::array told_deaths = {Death::silent, Death::nonsense, Death::excluded};

class KeyedHash {
 public:
  explicit KeyedHash(std::span<const std::byte> key) {
    crypto_generichash_init(&m_state, reinterpret_cast<const unsigned char*>(key.data()), key.size(), proof_bytes);
  }
  KeyedHash& add(std::span<const std::byte> bytes) {
    crypto_generichash_update(&m_state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    return *this;
  }
  KeyedHash& add(std::uint32_t number) { return add(std::as_bytes(std::span(&number, 1))); }
  /// With its length: no two lists of texts hash alike.
  KeyedHash& add(std::string_view text) { return add(static_cast<std::uint32_t>(text.size())).add(std::as_bytes(std::span(text))); }
  Proof result() {
    Proof proof;
    crypto_generichash_final(&m_state, reinterpret_cast<unsigned char*>(proof.data()), proof.size());
    return proof;
  }

 private:
  crypto_generichash_state m_state{};
};

bool is_equal(const Proof& expected, std::span<const std::byte> found) { return sodium_memcmp(expected.data(), found.data(), proof_bytes) == 0; }

/// Rank and connection, xored with what only who has the key can know; so again gives them back.
std::array<std::byte, place_bytes> hidden(std::array<std::byte, place_bytes> place, const Proof& pad) {
  for (std::size_t i = 0; i < place.size(); ++i) place[i] ^= pad[i];
  return place;
}

}  // namespace

Nonce random_nonce() {
  if (sodium_init() < 0) throw Error("the system gives no random numbers, so ranks cannot prove who they are: see that /dev/urandom is there");
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

Proof digest_of_terms(const RankFacts& facts) {
  return KeyedHash(facts.key.bytes())
      .add("terms")
      .add(facts.terms)
      .add(facts.world)
      .add(facts.connections_per_peer)
      .add(static_cast<std::uint32_t>(facts.frame_check))
      .result();
}

OwnSide own_side(const RankFacts& facts) {
  if (facts.frame_check == FrameCheck::tag) ready_frame_sums();
  return {facts.key, digest_of_terms(facts), facts.rank, facts.world, facts.connections_per_peer, facts.frame_check};
}

Handshake Handshake::to_dial(const OwnSide& own, std::uint32_t peer, std::uint32_t connection, const Nonce& nonce) {
  Handshake shake(own);
  shake.m_dials = true;
  shake.m_peer = peer;
  shake.m_connection = connection;
  shake.m_dialer_nonce = nonce;
  shake.say(std::as_bytes(std::span(magic)));
  shake.say(std::as_bytes(std::span(&wire_version, 1)));
  shake.say(nonce);
  return shake;
}

Handshake Handshake::to_accept(const OwnSide& own, const Nonce& nonce) {
  Handshake shake(own);
  shake.m_acceptor_nonce = nonce;
  return shake;
}

std::size_t Handshake::message_bytes() const {
  if (m_stage == Stage::greeting) return m_dials ? nonce_bytes : greeting_bytes;
  if (m_stage == Stage::claim) return claim_bytes;
  return m_stage == Stage::answer ? answer_bytes : 0;
}

std::size_t Handshake::wanted() const { return message_bytes() - m_received; }

std::vector<std::byte> Handshake::output() { return std::exchange(m_output, {}); }

void Handshake::say(std::span<const std::byte> bytes) { m_output.insert(m_output.end(), bytes.begin(), bytes.end()); }

void Handshake::refuse(Refusal refusal) {
  m_stage = Stage::refused;
  m_refusal = refusal;
  m_received = 0;
}

Proof Handshake::tag(std::string_view label, bool with_terms) const {
  KeyedHash hash(m_own->key.bytes());
  hash.add(label).add(wire_version).add(m_dialer_nonce).add(m_acceptor_nonce);
  if (label == dialer_place) return hash.result();
  hash.add(m_dials ? m_own->rank : m_peer).add(m_dials ? m_peer : m_own->rank).add(m_connection);
  if (with_terms) hash.add(m_own->terms);
  return hash.result();
}

Proof Handshake::proof_of_end(Death reason) const {
  const Proof proof = tag(acceptor_proof, false);
  KeyedHash hash(m_own->key.bytes());
  hash.add(acceptor_end).add(proof).add(static_cast<std::uint32_t>(reason));
  return hash.result();
}

void Handshake::give_up(Death reason) {
  m_output.clear();
  say(proof_of_end(reason));
  say(tag(acceptor_terms, true));
  refuse(Refusal::dead);
}

FrameKeys Handshake::frame_keys() const {
  if (m_own->frame_check == FrameCheck::checksum) return {};
  const auto keyed_by = [this](std::string_view label) {
    Proof secret = tag(label, true);
    FrameSums sums{SecretKey(secret)};
    sodium_memzero(secret.data(), secret.size());
    return sums;
  };
  const FrameSums of_dialer = keyed_by(dialer_frames);
  const FrameSums of_acceptor = keyed_by(acceptor_frames);
  return m_dials ? FrameKeys{of_dialer, of_acceptor} : FrameKeys{of_acceptor, of_dialer};
}

void Handshake::take(std::span<const std::byte> bytes) {
  while (!bytes.empty() && m_stage != Stage::done && m_stage != Stage::refused) {
    const std::size_t part = std::min(bytes.size(), wanted());
    std::ranges::copy(bytes.first(part), m_message.begin() + static_cast<std::ptrdiff_t>(m_received));
    m_received += part;
    bytes = bytes.subspan(part);
    // What is no greeting is refused as soon as it shows.
    if (!m_dials && m_stage == Stage::greeting && std::memcmp(m_message.data(), magic.data(), std::min(m_received, magic.size())) != 0) {
      return refuse(Refusal::garbage);
    }
    if (wanted() > 0) return;
    m_received = 0;
    if (m_stage == Stage::claim) {
      read_claim();
    } else if (m_stage == Stage::answer) {
      read_answer();
    } else {
      m_dials ? read_nonce() : read_greeting();
    }
  }
}

void Handshake::read_greeting() {
  std::uint32_t version = 0;
  std::memcpy(&version, m_message.data() + magic.size(), sizeof version);
  if (version != wire_version) return refuse(Refusal::other_version);
  std::memcpy(m_dialer_nonce.data(), m_message.data() + magic.size() + sizeof version, nonce_bytes);
  say(m_acceptor_nonce);
  m_stage = Stage::claim;
}

void Handshake::read_nonce() {
  std::memcpy(m_acceptor_nonce.data(), m_message.data(), nonce_bytes);
  std::array<std::byte, place_bytes> place;
  std::memcpy(place.data(), &m_own->rank, sizeof m_own->rank);
  std::memcpy(place.data() + sizeof m_own->rank, &m_connection, sizeof m_connection);
  say(hidden(place, tag(dialer_place, false)));
  say(tag(dialer_proof, false));
  say(tag(dialer_terms, true));
  m_stage = Stage::answer;
}

void Handshake::read_claim() {
  std::array<std::byte, place_bytes> place;
  std::memcpy(place.data(), m_message.data(), place_bytes);
  place = hidden(place, tag(dialer_place, false));
  std::memcpy(&m_peer, place.data(), sizeof m_peer);
  std::memcpy(&m_connection, place.data() + sizeof m_peer, sizeof m_connection);
  const std::span<const std::byte> proofs(m_message.data() + place_bytes, 2 * proof_bytes);
  if (!is_equal(tag(dialer_proof, false), proofs.first(proof_bytes))) return refuse(Refusal::wrong_proof);
  // Has the key: it may know why it is refused, by this side's own proof of terms.
  say(tag(acceptor_proof, false));
  say(tag(acceptor_terms, true));
  if (!is_equal(tag(dialer_terms, true), proofs.last(proof_bytes))) return refuse(Refusal::other_terms);
  // The higher rank dials.
  if (m_peer <= m_own->rank || m_peer >= m_own->world || connection() >= m_own->connections) return refuse(Refusal::garbage);
  m_stage = Stage::done;
}

void Handshake::read_answer() {
  const std::span<const std::byte> proofs(m_message.data(), 2 * proof_bytes);
  for (const Death reason : told_deaths) {
    if (!is_equal(proof_of_end(reason), proofs.first(proof_bytes))) continue;
    m_given_up = reason;
    return refuse(Refusal::dead);
  }
  if (!is_equal(tag(acceptor_proof, false), proofs.first(proof_bytes))) return refuse(Refusal::wrong_proof);
  if (!is_equal(tag(acceptor_terms, true), proofs.last(proof_bytes))) return refuse(Refusal::other_terms);
  m_stage = Stage::done;
}

}  // namespace dsanalyze::transport
