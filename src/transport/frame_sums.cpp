#include "frame_sums.hpp"

#include <sodium.h>
#include <xxhash.h>

#include <array>
#include <cstring>

// The same sums, twice as fast, by the widest vectors that the processor has.
#if defined(DSANALYZE_XXHASH_DISPATCHES)
#include <xxh_x86dispatch.h>
#endif

namespace dsanalyze::transport {
namespace {

const unsigned char* plain(std::span<const std::byte> bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

FrameSum tag_of(const JobKey& key, std::uint64_t count, std::span<const std::byte> head, std::span<const std::byte> body) {
  std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES> nonce{};
  std::memcpy(nonce.data(), &count, sizeof count);
  std::array<unsigned char, crypto_onetimeauth_KEYBYTES> once;
  crypto_stream_chacha20_ietf(once.data(), once.size(), nonce.data(), plain(key));
  crypto_onetimeauth_state state;
  crypto_onetimeauth_init(&state, once.data());
  crypto_onetimeauth_update(&state, plain(head), head.size());
  crypto_onetimeauth_update(&state, plain(body), body.size());
  FrameSum sum;
  static_assert(sizeof sum == crypto_onetimeauth_BYTES);
  crypto_onetimeauth_final(&state, reinterpret_cast<unsigned char*>(sum.data()));
  sodium_memzero(once.data(), once.size());
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

FrameSum FrameSums::next(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t count = m_count++;
  return m_key ? tag_of(m_key->bytes(), count, head, body) : checksum_of(count, head, body);
}

bool FrameSums::matches(std::span<const std::byte> head, std::span<const std::byte> body, std::span<const std::byte> sum) {
  const FrameSum expected = next(head, body);
  return sum.size() == expected.size() && sodium_memcmp(expected.data(), sum.data(), expected.size()) == 0;
}

}  // namespace dsanalyze::transport
