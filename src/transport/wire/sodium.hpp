#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transport/rendezvous/job_key.hpp"

namespace dsanalyze {

/// Makes libsodium ready; any number of times. Throws Error.
void ready_sodium();

/// Random bytes as hexadecimal digits, two a byte.
std::string random_hex(std::size_t bytes);

/// The keyed hash (BLAKE2b) of a text, as 64 hexadecimal digits: who can make it knows the key.
std::string proof_hex(const JobKey& key, std::string_view text);
/// Compares in constant time.
bool same_secret(std::string_view a, std::string_view b);

void wipe(std::span<std::byte> bytes);

/// Wipes them when it goes, however that comes.
class WipedAtEnd {
 public:
  explicit WipedAtEnd(std::span<std::byte> bytes) : m_bytes(bytes) {}
  WipedAtEnd(const WipedAtEnd&) = delete;
  WipedAtEnd& operator=(const WipedAtEnd&) = delete;
  ~WipedAtEnd() { wipe(m_bytes); }

 private:
  std::span<std::byte> m_bytes;
};

/// A text that may hold a key. All memory that it ever had is wiped, also what it leaves behind as it grows. Threads: as a value.
class SecretText {
 public:
  SecretText() = default;
  explicit SecretText(std::size_t zeros) : m_text(zeros, '\0') {}
  SecretText(const SecretText&) = default;
  SecretText(SecretText&& other) noexcept = default;
  SecretText& operator=(SecretText other) noexcept {
    m_text.swap(other.m_text);
    return *this;
  }
  ~SecretText() { clear(); }

  [[nodiscard]] std::string_view view() const { return m_text; }
  [[nodiscard]] char* data() { return m_text.data(); }
  void reserve(std::size_t bytes);
  void append(std::string_view text);
  /// As 64 hexadecimal digits.
  void append_hex(const SecretKey& key);
  void shorten(std::size_t bytes) { m_text.resize(std::min(bytes, m_text.size())); }
  void clear();

 private:
  std::string m_text;
};

}  // namespace dsanalyze
