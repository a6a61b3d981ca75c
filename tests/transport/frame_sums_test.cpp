#include "transport/wire/frame_sums.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace dsanalyze::transport {
namespace {

SecretKey key_of(int value) {
  JobKey key;
  key.fill(static_cast<std::byte>(value));
  return SecretKey(key);
}

const std::vector<std::byte> summed_body(1000, std::byte{3});
const HeadBytes summed_head = write_head({FrameKind::reply, 1000, 7, 0, 0});

TEST_CASE("A frame's sum is of its head, its bytes, its count and, with a key, of the key") {
  for (const bool is_keyed : {false, true}) {
    CAPTURE(is_keyed);
    const FrameSums start = is_keyed ? FrameSums(key_of(1)) : FrameSums();
    const FrameSum sum = FrameSums(start).next(summed_head, summed_body);
    CHECK(FrameSums(start).matches(summed_head, summed_body, sum));
    for (std::size_t bit = 0; bit < 8 * bare_head_bytes; ++bit) {
      HeadBytes changed = summed_head;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK_FALSE(FrameSums(start).matches(changed, summed_body, sum));
    }
    for (std::size_t at = 0; at < summed_body.size(); ++at) {
      std::vector<std::byte> changed = summed_body;
      changed[at] ^= std::byte{1};
      CHECK_FALSE(FrameSums(start).matches(summed_head, changed, sum));
    }
    for (std::size_t bit = 0; bit < 8 * sum.size(); ++bit) {
      FrameSum changed = sum;
      changed[bit / 8] ^= std::byte{1} << (bit % 8);
      CHECK_FALSE(FrameSums(start).matches(summed_head, summed_body, changed));
    }
    CHECK_FALSE(FrameSums(start).matches(summed_head, std::span(summed_body).first(999), sum));
    CHECK_FALSE(FrameSums(start).matches(summed_head, summed_body, std::span(sum).first(15)));
    CHECK_FALSE(FrameSums(key_of(2)).matches(summed_head, summed_body, sum));
  }
}

TEST_CASE("A frame that is left out, repeated or out of its turn has another sum") {
  for (const bool is_keyed : {false, true}) {
    CAPTURE(is_keyed);
    FrameSums sending = is_keyed ? FrameSums(key_of(1)) : FrameSums();
    const FrameSums receiving = sending;
    const FrameSum first = sending.next(summed_head, summed_body);
    const FrameSum second = sending.next(summed_head, summed_body);
    CHECK(first != second);
    FrameSums in_turn = receiving;
    CHECK(in_turn.matches(summed_head, summed_body, first));
    CHECK(in_turn.matches(summed_head, summed_body, second));
    CHECK_FALSE(FrameSums(receiving).matches(summed_head, summed_body, second));
    FrameSums repeated = receiving;
    CHECK(repeated.matches(summed_head, summed_body, first));
    CHECK_FALSE(repeated.matches(summed_head, summed_body, first));
  }
}

TEST_CASE("A tag is Poly1305 of head and bytes, under the key that ChaCha20 gives for the frame's count") {
  // Computed by another implementation (OpenSSL's, by way of Python's cryptography): key of 32 ones, first and second frame.
  FrameSums sums(key_of(1));
  const std::vector<std::byte> three(3, std::byte{9});
  const HeadBytes zeros{};
  const auto hex = [](const FrameSum& sum) {
    std::string text;
    for (const std::byte byte : sum) {
      constexpr std::string_view digits = "0123456789abcdef";
      text += digits[static_cast<std::size_t>(byte) / 16];
      text += digits[static_cast<std::size_t>(byte) % 16];
    }
    return text;
  };
  CHECK(hex(sums.next(zeros, three)) == "1d0e5187f81030a99fd8b08994d7a7fd");
  CHECK(hex(sums.next(zeros, three)) == "20106f42a82997e7cc6cb11b91bf5c14");
}

}  // namespace
}  // namespace dsanalyze::transport
