#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frame_sums.hpp"
#include "transport/team/members.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze::transport {

// How two ranks prove to each other that they have the job's key, before anything else:
//   dialer    magic, version, nonce D                                 44 bytes
//   acceptor  nonce A                                                 32
//   dialer    rank and connection, hidden; proof, proof of terms      72
//   acceptor  proof, proof of terms                                   64
// A proof is keyed BLAKE2b (32 bytes) of a label of its own, the version, both nonces, both ranks and the connection's number, so none can be played
// back, sent back, or used between other ranks. The keys of the frames that follow are such hashes too, one for each direction. The proof of terms is
// over these and the terms: a member of the job with another dataset is told from a stranger. A stranger gets 32 random bytes to see, and nothing
// when what it says first is not a rank's greeting.

constexpr std::size_t nonce_bytes = 32;
constexpr std::size_t proof_bytes = 32;
using Nonce = std::array<std::byte, nonce_bytes>;
using Proof = std::array<std::byte, proof_bytes>;

/// From the system's random numbers. Throws Error when there are none.
Nonce random_nonce();
/// What must be the same, in 32 bytes: of `terms`, the world's size, the connections and how frames are summed.
Proof digest_of_terms(const RankFacts& facts);

/// What a handshake needs to know of its own side. Outlives it.
struct OwnSide {
  SecretKey key{JobKey{}};
  Proof terms{};
  std::uint32_t rank = 0;
  std::uint32_t world = 0;
  std::uint32_t connections = 0;
  FrameCheck frame_check = FrameCheck::tag;
};
OwnSide own_side(const RankFacts& facts);

/// How the frames that follow a handshake are summed.
struct FrameKeys {
  FrameSums sending;
  FrameSums receiving;
};

/// A claim to a connection that is there already, by the rank that dialed it before: its socket is of no use any more.
constexpr std::uint32_t opened_again = 1U << 31U;

/// One side of a handshake: bytes in, bytes out. Takes no more bytes than the other side's messages have (104 at most).
class Handshake {
 public:
  static Handshake to_dial(const OwnSide& own, std::uint32_t peer, std::uint32_t connection, const Nonce& nonce);
  static Handshake to_accept(const OwnSide& own, const Nonce& nonce);

  enum class Stage : std::uint8_t { greeting, claim, answer, done, refused };
  /// Bytes that still belong to the handshake: what may be received.
  [[nodiscard]] std::size_t wanted() const;
  void take(std::span<const std::byte> bytes);
  /// To be sent now; given once.
  std::vector<std::byte> output();
  [[nodiscard]] Stage stage() const { return m_stage; }
  [[nodiscard]] Refusal refusal() const { return m_refusal; }
  /// Known to an acceptor once it is done.
  [[nodiscard]] std::uint32_t peer() const { return m_peer; }
  [[nodiscard]] std::uint32_t connection() const { return m_connection & ~opened_again; }
  [[nodiscard]] bool opens_again() const { return (m_connection & opened_again) != 0; }
  /// Of an acceptor that is done and has not given its output yet: tells the other rank that the job goes on without it, and why.
  void give_up(Death reason);
  /// Of a dialer that was told so: why. Death::none: it was not.
  [[nodiscard]] Death given_up() const { return m_given_up; }
  /// Once it is done.
  [[nodiscard]] FrameKeys frame_keys() const;

 private:
  explicit Handshake(const OwnSide& own) : m_own(&own) {}
  [[nodiscard]] Proof tag(std::string_view label, bool with_terms) const;
  [[nodiscard]] Proof proof_of_end(Death reason) const;
  [[nodiscard]] std::size_t message_bytes() const;
  void refuse(Refusal refusal);
  void read_greeting();
  void read_nonce();
  void read_claim();
  void read_answer();
  void say(std::span<const std::byte> bytes);

  const OwnSide* m_own;
  Stage m_stage = Stage::greeting;
  Refusal m_refusal = Refusal::none;
  bool m_dials = false;
  std::uint32_t m_peer = 0;
  std::uint32_t m_connection = 0;
  Death m_given_up = Death::none;
  Nonce m_dialer_nonce{};
  Nonce m_acceptor_nonce{};
  std::array<std::byte, 80> m_message{};  ///< what came of the message that is being received
  std::size_t m_received = 0;
  std::vector<std::byte> m_output;
};

}  // namespace dsanalyze::transport
