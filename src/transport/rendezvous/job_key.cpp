#include "job_key.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "private_file.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t hex_digits = 2 * sizeof(JobKey);

std::string how_to_make(const std::filesystem::path& path) {
  const std::string word = shell_word(path.native());
  return fmt::format("make one with: head -c {} /dev/urandom > {}; chmod 600 {}", sizeof(JobKey), word, word);
}

std::string hex_of(const unsigned char* bytes, std::size_t count) {
  std::string text(2 * count + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, count);
  text.pop_back();
  return text;
}

const unsigned char* raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
const unsigned char* raw(const JobKey& key) { return reinterpret_cast<const unsigned char*>(key.data()); }

}  // namespace

void ready_sodium() {
  if (sodium_init() < 0)
    throw Error("libsodium finds no source of random numbers on this system (/dev/urandom), and without one there are no secrets");
}

std::string random_hex(std::size_t bytes) {
  ready_sodium();
  std::string random(bytes, '\0');
  randombytes_buf(random.data(), random.size());
  return hex_of(raw(random), random.size());
}

std::string proof_hex(const JobKey& key, std::string_view text) {
  unsigned char hash[32];
  crypto_generichash(hash, sizeof hash, raw(text), text.size(), raw(key), key.size());
  return hex_of(hash, sizeof hash);
}

bool same_secret(std::string_view a, std::string_view b) { return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

std::optional<SecretKey> key_from_hex(std::string_view hex) {
  JobKey key{};
  const WipedAtEnd wiped(key);
  std::size_t bytes = 0;
  const bool good = hex.size() == hex_digits &&
                    sodium_hex2bin(reinterpret_cast<unsigned char*>(key.data()), key.size(), hex.data(), hex.size(), nullptr, &bytes, nullptr) == 0 &&
                    bytes == key.size();
  return good ? std::optional(SecretKey(key)) : std::nullopt;
}

void wipe(std::span<std::byte> bytes) { sodium_memzero(bytes.data(), bytes.size()); }

void SecretText::reserve(std::size_t bytes) {
  if (bytes <= m_text.capacity()) return;
  SecretText larger;
  larger.m_text.reserve(std::max(bytes, 2 * m_text.capacity()));
  larger.m_text = m_text;
  *this = std::move(larger);
}

void SecretText::append(std::string_view text) {
  reserve(m_text.size() + text.size());
  m_text.append(text);
}

void SecretText::append_hex(const SecretKey& key) {
  const std::size_t at = m_text.size();
  reserve(at + hex_digits + 1);
  m_text.resize(at + hex_digits + 1);  // with the zero that ends the digits
  sodium_bin2hex(m_text.data() + at, hex_digits + 1, raw(key.bytes()), key.bytes().size());
  m_text.pop_back();
}

void SecretText::clear() {
  m_text.resize(m_text.capacity());  // what lies behind the end, too
  sodium_memzero(m_text.data(), m_text.size());
  m_text.clear();
}

SecretKey::~SecretKey() { sodium_memzero(m_bytes.data(), m_bytes.size()); }

SecretKey make_key() {
  ready_sodium();
  JobKey bytes;
  const WipedAtEnd wiped(bytes);
  randombytes_buf(bytes.data(), bytes.size());
  return SecretKey(bytes);
}

SecretKey read_key_file(const std::filesystem::path& path) {
  ready_sodium();
  const FileDescriptor file = open_private_file(path, Links::followed, Owners::this_user_or_root, "the key file", how_to_make(path));
  if (!file.valid()) throw UsageError(fmt::format("there is no key file {}; {}", printable(path.native()), how_to_make(path)));
  const SecretText content = read_open_file(file, path, hex_digits + 3);
  std::string_view text = content.view();
  std::optional<SecretKey> key;
  if (text.size() == sizeof(JobKey)) {
    JobKey bytes;
    const WipedAtEnd wiped(bytes);
    std::memcpy(bytes.data(), text.data(), bytes.size());
    key.emplace(bytes);
  } else {
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    key = key_from_hex(text);
  }
  if (!key) {
    throw UsageError(fmt::format("the key file {} does not hold a key, which is {} bytes or {} hexadecimal digits; {}", printable(path.native()),
                                 sizeof(JobKey), hex_digits, how_to_make(path)));
  }
  return *key;
}

}  // namespace dsanalyze
