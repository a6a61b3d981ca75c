#include "frame_sums.hpp"

#include <openssl/evp.h>
#include <sodium.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <memory>

#include "base/error.hpp"

// The same sums, twice as fast, by the widest vectors that the processor has.
#if defined(DSANALYZE_XXHASH_DISPATCHES)
#include <xxh_x86dispatch.h>
#endif

namespace dsanalyze::transport {
namespace {

const unsigned char* plain(std::span<const std::byte> bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

constexpr std::size_t poly1305_key_bytes = 32;

/// One a thread, for every key: making one takes longer than the tag of a small frame.
EVP_MAC_CTX& poly1305() {
  using Algorithm = std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)>;
  using Context = std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)>;
  thread_local const Context context = [] {
    const Algorithm algorithm(EVP_MAC_fetch(nullptr, "POLY1305", nullptr), EVP_MAC_free);
    return Context(algorithm ? EVP_MAC_CTX_new(algorithm.get()) : nullptr, EVP_MAC_CTX_free);
  }();
  if (!context) throw Error("OpenSSL's libcrypto has no Poly1305 here, so frames between ranks cannot be authenticated: see its configuration");
  return *context;
}

FrameSum tag_of(const JobKey& key, std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> body) {
  std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES> nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  std::array<unsigned char, poly1305_key_bytes> once;
  crypto_stream_chacha20_ietf(once.data(), once.size(), nonce.data(), plain(key));
  EVP_MAC_CTX& context = poly1305();
  FrameSum sum;
  std::size_t written = 0;
  const bool is_made = EVP_MAC_init(&context, once.data(), once.size(), nullptr) == 1 && EVP_MAC_update(&context, plain(head), head.size()) == 1 &&
                       EVP_MAC_update(&context, plain(body), body.size()) == 1 &&
                       EVP_MAC_final(&context, reinterpret_cast<unsigned char*>(sum.data()), &written, sum.size()) == 1;
  sodium_memzero(once.data(), once.size());
  if (!is_made || written != sum.size()) throw Error("OpenSSL's libcrypto made no Poly1305 tag of a frame");
  return sum;
}

FrameSum checksum_of(std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> body) {
  const XXH64_hash_t seed = XXH3_64bits_withSeed(head.data(), head.size(), count);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(body.data(), body.size(), seed);
  FrameSum sum;
  static_assert(sizeof sum == sizeof hash);
  std::memcpy(sum.data(), &hash, sizeof hash);
  return sum;
}

}  // namespace

void ready_frame_sums() { poly1305(); }

FrameSum FrameSums::next(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t count = m_count++;
  return m_key ? tag_of(m_key->bytes(), count, head, body) : checksum_of(count, head, body);
}

bool FrameSums::matches(std::span<const std::byte> head, std::span<const std::byte> body, std::span<const std::byte> sum) {
  const FrameSum expected = next(head, body);
  return sum.size() == expected.size() && sodium_memcmp(expected.data(), sum.data(), expected.size()) == 0;
}

}  // namespace dsanalyze::transport
