#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "job_key.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {

// How two ranks that meet over TCP prove to one another that they know the key, and what they say then. Who listens greets first; who dials answers
// with a greeting and its proof; who listens answers with its own. A proof is a keyed hash of both nonces and of who proves. Then come frames:
// length, then the text encrypted under keys of this connection (XSalsa20 and Poly1305), counted, so that none can be changed, repeated, left out or
// sent back.

enum class Keyed : std::uint8_t { no, yes };
enum class End : std::uint8_t { listens, dials };

constexpr std::size_t greeting_bytes = 64;
constexpr std::size_t proof_bytes = 32;
/// What a stranger may send: less than the 256 bytes that are read before somebody has proved anything.
constexpr std::size_t bytes_before_proof = greeting_bytes + proof_bytes;

struct Greeting {
  std::uint32_t protocol = 0;
  Keyed keyed = Keyed::no;
  std::array<std::byte, 32> nonce{};
};
/// With a new nonce.
Greeting new_greeting(Keyed keyed);
std::string to_bytes(const Greeting& greeting);
/// nullopt: not one of ours. Another protocol's has its number, and no more.
std::optional<Greeting> parse_greeting(std::string_view bytes);

/// A job's key; no secret (all zero) on loopback without one.
const JobKey& key_or_zeros(const std::optional<SecretKey>& key);

/// One connection's proofs and frames. Wiped when destroyed. Threads: one at a time.
class SealedLine {
 public:
  /// `key`: of key_or_zeros().
  SealedLine(End own, const JobKey& key, const Greeting& listener, const Greeting& dialer);
  SealedLine(const SealedLine&) = default;
  SealedLine& operator=(const SealedLine&) = default;
  ~SealedLine();

  [[nodiscard]] std::string own_proof() const;
  [[nodiscard]] bool is_proof_of_other(std::string_view bytes) const;

  [[nodiscard]] std::string seal(std::string_view text);
  enum class Opened : std::uint8_t { yes, more, broken };
  /// Takes the next frame off `bytes` into `text`; `more` when it is not whole yet. A frame longer than `most` is broken before it is read.
  Opened open(std::string& bytes, std::size_t most, SecretText& text);

 private:
  using Secret = std::array<unsigned char, 32>;
  Secret m_sending{}, m_receiving{}, m_own_proof{}, m_other_proof{};
  std::uint64_t m_sent = 0, m_received = 0;
};

// One text for all connections of a meeting: it is encrypted once, under a key of its own, and each connection is told that key in a sealed frame.
// Sealed for each, the list of 4,096 ranks would take 1 GB.

/// What a connection is told before it gets the sealed text.
struct SharedTextKey {
  SecretKey key;
  std::size_t sealed_bytes = 0;  ///< that follow
};
SecretText to_text(const SharedTextKey& of);
/// nullopt for any other text, and for more than `most` bytes.
std::optional<SharedTextKey> parse_shared_text_key(std::string_view text, std::size_t most);

/// The sealed text. Threads: as a value.
class SharedText {
 public:
  explicit SharedText(std::string_view text);
  [[nodiscard]] const std::string& sealed() const { return m_sealed; }
  [[nodiscard]] SharedTextKey key() const { return {m_key, m_sealed.size()}; }

 private:
  SecretKey m_key;
  std::string m_sealed;
};

/// Opens what was sealed; false where it was changed.
bool open_shared_text(const SharedTextKey& key, std::string_view sealed, SecretText& text);

}  // namespace dsanalyze
