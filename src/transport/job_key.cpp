#include "dsanalyze/transport/job_key.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/text.hpp"
#include "private_file.hpp"
#include "sodium.hpp"

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

std::string key_hex(const JobKey& key) { return hex_of(raw(key), key.size()); }

bool key_from_hex(std::string_view hex, JobKey& key) {
  std::size_t bytes = 0;
  return hex.size() == hex_digits &&
         sodium_hex2bin(reinterpret_cast<unsigned char*>(key.data()), key.size(), hex.data(), hex.size(), nullptr, &bytes, nullptr) == 0 &&
         bytes == key.size();
}

void wipe(std::span<std::byte> bytes) { sodium_memzero(bytes.data(), bytes.size()); }
void wipe(std::string& text) { sodium_memzero(text.data(), text.size()); }

SecretKey::~SecretKey() { sodium_memzero(m_bytes.data(), m_bytes.size()); }

SecretKey make_key() {
  ready_sodium();
  SecretKey key(JobKey{});
  JobKey bytes;
  randombytes_buf(bytes.data(), bytes.size());
  key = SecretKey(bytes);
  wipe(bytes);
  return key;
}

SecretKey read_key_file(const std::filesystem::path& path) {
  ready_sodium();
  const FileDescriptor file = open_private_file(path, Links::followed, Owners::this_user_or_root, "the key file", how_to_make(path));
  if (!file.valid()) throw UsageError(fmt::format("there is no key file {}; {}", printable(path.native()), how_to_make(path)));
  std::string content = read_open_file(file, path, hex_digits + 3);
  std::string_view text = content;
  JobKey bytes{};
  bool good = text.size() == bytes.size();
  if (good) {
    std::memcpy(bytes.data(), text.data(), bytes.size());
  } else {
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    good = key_from_hex(text, bytes);
  }
  const SecretKey key(bytes);
  wipe(bytes);
  wipe(content);
  if (!good) {
    throw UsageError(fmt::format("the key file {} does not hold a key, which is {} bytes or {} hexadecimal digits; {}", printable(path.native()),
                                 sizeof(JobKey), hex_digits, how_to_make(path)));
  }
  return key;
}

}  // namespace dsanalyze
