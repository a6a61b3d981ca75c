#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "job_key.hpp"
#include "transport/wire/sodium.hpp"

namespace dsanalyze {

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
