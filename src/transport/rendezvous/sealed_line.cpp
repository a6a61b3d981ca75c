#include "sealed_line.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cstring>
#include <utility>

#include "introduction.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view greeting_magic = "dsanalyze-meeting";  // 17 bytes, then the version (4), the kind of key (1), zeros, and the nonce (32)
constexpr std::size_t version_at = 20;
constexpr std::size_t keyed_at = 24;
constexpr std::size_t nonce_at = 32;
constexpr std::size_t length_bytes = 4;

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) number |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return number;
}

void put_number(std::string& bytes, std::size_t at, std::uint32_t number) {
  for (std::size_t i = 0; i < length_bytes; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i) & 0xff);
}

std::array<unsigned char, crypto_secretbox_NONCEBYTES> counted(std::uint64_t count) {
  std::array<unsigned char, crypto_secretbox_NONCEBYTES> nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  return nonce;
}

unsigned char* bytes_in(std::string& bytes, std::size_t at = 0) { return reinterpret_cast<unsigned char*>(bytes.data()) + at; }
const unsigned char* bytes_in(const std::string& bytes, std::size_t at = 0) { return reinterpret_cast<const unsigned char*>(bytes.data()) + at; }

}  // namespace

Greeting new_greeting(Keyed keyed) {
  ready_sodium();
  Greeting greeting{rank_protocol, keyed, {}};
  randombytes_buf(greeting.nonce.data(), greeting.nonce.size());
  return greeting;
}

std::string to_bytes(const Greeting& greeting) {
  std::string bytes(greeting_bytes, '\0');
  std::memcpy(bytes.data(), greeting_magic.data(), greeting_magic.size());
  put_number(bytes, version_at, greeting.protocol);
  bytes[keyed_at] = static_cast<char>(greeting.keyed);
  std::memcpy(bytes.data() + nonce_at, greeting.nonce.data(), greeting.nonce.size());
  return bytes;
}

std::optional<Greeting> parse_greeting(std::string_view bytes) {
  if (bytes.size() != greeting_bytes || !bytes.starts_with(greeting_magic)) return std::nullopt;
  Greeting greeting{number_at(bytes, version_at), Keyed::no, {}};
  if (greeting.protocol != rank_protocol) return greeting;
  const auto keyed = static_cast<unsigned char>(bytes[keyed_at]);
  if (keyed > 1) return std::nullopt;
  greeting.keyed = static_cast<Keyed>(keyed);
  std::memcpy(greeting.nonce.data(), bytes.data() + nonce_at, greeting.nonce.size());
  return greeting;
}

const JobKey& key_or_zeros(const std::optional<SecretKey>& key) {
  static constexpr JobKey zeros{};
  return key ? key->bytes() : zeros;
}

SealedLine::SealedLine(End own, const JobKey& key, const Greeting& listener, const Greeting& dialer) {
  const std::string spoken = to_bytes(listener) + to_bytes(dialer);
  const auto derive = [&](std::string_view use, Secret& secret) {
    const std::string text = std::string(use) + spoken;
    crypto_generichash(secret.data(), secret.size(), bytes_in(text), text.size(), reinterpret_cast<const unsigned char*>(key.data()), key.size());
  };
  const bool listens = own == End::listens;
  derive("proof of who listens", listens ? m_own_proof : m_other_proof);
  derive("proof of who dials", listens ? m_other_proof : m_own_proof);
  derive("frames of who listens", listens ? m_sending : m_receiving);
  derive("frames of who dials", listens ? m_receiving : m_sending);
}

SealedLine::~SealedLine() {
  for (Secret* secret : {&m_sending, &m_receiving, &m_own_proof, &m_other_proof}) sodium_memzero(secret->data(), secret->size());
}

std::string SealedLine::own_proof() const { return {reinterpret_cast<const char*>(m_own_proof.data()), m_own_proof.size()}; }

bool SealedLine::is_proof_of_other(std::string_view bytes) const {
  return bytes.size() == m_other_proof.size() && sodium_memcmp(bytes.data(), m_other_proof.data(), m_other_proof.size()) == 0;
}

std::string SealedLine::seal(std::string_view text) {
  const std::size_t sealed = text.size() + crypto_secretbox_MACBYTES;
  std::string frame(length_bytes + sealed, '\0');
  put_number(frame, 0, static_cast<std::uint32_t>(sealed));
  const auto nonce = counted(m_sent++);
  crypto_secretbox_easy(bytes_in(frame, length_bytes), reinterpret_cast<const unsigned char*>(text.data()), text.size(), nonce.data(),
                        m_sending.data());
  return frame;
}

SealedLine::Opened SealedLine::open(std::string& bytes, std::size_t most, SecretText& text) {
  if (bytes.size() < length_bytes) return Opened::more;
  const std::size_t sealed = number_at(bytes, 0);
  if (sealed < crypto_secretbox_MACBYTES || sealed > most + crypto_secretbox_MACBYTES) return Opened::broken;
  if (bytes.size() < length_bytes + sealed) return Opened::more;
  text = SecretText(sealed - crypto_secretbox_MACBYTES);
  const auto nonce = counted(m_received++);
  if (crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(text.data()), bytes_in(std::as_const(bytes), length_bytes), sealed, nonce.data(),
                                 m_receiving.data()) != 0)
    return Opened::broken;
  bytes.erase(0, length_bytes + sealed);
  return Opened::yes;
}

namespace {

static_assert(sizeof(JobKey) == crypto_secretbox_KEYBYTES);
constexpr std::string_view list_word = "list";
constexpr std::size_t key_digits = 2 * sizeof(JobKey);
/// Each key seals one text.
constexpr std::array<unsigned char, crypto_secretbox_NONCEBYTES> only_nonce{};

const unsigned char* key_bytes(const SecretKey& key) { return reinterpret_cast<const unsigned char*>(key.bytes().data()); }

}  // namespace

SecretText to_text(const SharedTextKey& of) {
  SecretText text;
  text.reserve(list_word.size() + key_digits + 32);
  text.append(list_word);
  text.append(" ");
  text.append_hex(of.key);
  text.append(fmt::format(" {}", of.sealed_bytes));
  return text;
}

std::optional<SharedTextKey> parse_shared_text_key(std::string_view text, std::size_t most) {
  const auto value = value_of(text, list_word);
  if (!value || value->size() < key_digits + 2 || (*value)[key_digits] != ' ') return std::nullopt;
  const auto key = key_from_hex(value->substr(0, key_digits));
  const auto bytes = whole_number(value->substr(key_digits + 1), most);
  if (!key || !bytes || *bytes < crypto_secretbox_MACBYTES) return std::nullopt;
  return SharedTextKey{*key, *bytes};
}

SharedText::SharedText(std::string_view text) : m_key(make_key()), m_sealed(text.size() + crypto_secretbox_MACBYTES, '\0') {
  crypto_secretbox_easy(reinterpret_cast<unsigned char*>(m_sealed.data()), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                        only_nonce.data(), key_bytes(m_key));
}

bool open_shared_text(const SharedTextKey& key, std::string_view sealed, SecretText& text) {
  if (sealed.size() != key.sealed_bytes || sealed.size() < crypto_secretbox_MACBYTES) return false;
  text = SecretText(sealed.size() - crypto_secretbox_MACBYTES);
  return crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(sealed.data()),
                                    sealed.size(), only_nonce.data(), key_bytes(key.key)) == 0;
}

}  // namespace dsanalyze
