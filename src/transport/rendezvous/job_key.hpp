#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>

namespace dsanalyze {

/// What the ranks of one job prove to one another that they know. Secret: never printed, never on a command line.
using JobKey = std::array<std::byte, 32>;

/// Owns a job's key; every copy is wiped from memory when it goes. Threads: as a value.
class SecretKey {
 public:
  explicit SecretKey(const JobKey& bytes) : m_bytes(bytes) {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  /// Valid as long as this is. Code that copies it wipes the copy.
  [[nodiscard]] const JobKey& bytes() const { return m_bytes; }

 private:
  JobKey m_bytes;
};

/// A new one, from the system's source of randomness. Threads: any.
SecretKey make_key();

/// nullopt when it is not exactly 64 hexadecimal digits. Threads: any.
std::optional<SecretKey> key_from_hex(std::string_view hex);

/// The key in a file: its 32 bytes as they are, or 64 hexadecimal digits and at most one end of line. The file must be a regular one, belong to this
/// user or to root, and give its group and others no access; all that is asked of the open file, whatever its name leads to by then. Throws
/// UsageError that says how to make a good one, Error when it cannot be read. Threads: any.
SecretKey read_key_file(const std::filesystem::path& path);

}  // namespace dsanalyze
