#include "shared_text.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <array>

#include "introduction.hpp"

namespace dsanalyze {
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
