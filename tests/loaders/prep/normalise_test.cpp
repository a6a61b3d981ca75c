#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "loaders/prep/normalise.hpp"

using namespace dsanalyze;

namespace {

constexpr std::size_t alignment = 64;

/// Room whose start lies `shift` bytes past an aligned address, with known bytes around it.
class Room {
 public:
  Room(std::size_t size, std::size_t shift) : m_size(size), m_bytes(size + 2 * alignment + shift, std::byte{0xA5}) {
    const auto address = reinterpret_cast<std::uintptr_t>(m_bytes.data());
    m_start = alignment - address % alignment + shift;
  }
  [[nodiscard]] std::span<std::byte> span() { return std::span(m_bytes).subspan(m_start, m_size); }
  [[nodiscard]] bool surroundings_untouched() const {
    for (std::size_t at = 0; at < m_bytes.size(); ++at) {
      if ((at < m_start || at >= m_start + m_size) && m_bytes[at] != std::byte{0xA5}) return false;
    }
    return true;
  }

 private:
  std::size_t m_size;
  std::size_t m_start = 0;
  std::vector<std::byte> m_bytes;
};

struct Format {
  DType dtype;
  Layout layout;
};
constexpr Format formats[] = {
    {DType::float32, Layout::nchw}, {DType::float32, Layout::nhwc}, {DType::uint8, Layout::nchw}, {DType::uint8, Layout::nhwc}};

std::vector<std::uint8_t> noise_rows(int size, std::size_t stride) {
  std::vector<std::uint8_t> rows(stride * static_cast<std::size_t>(size));
  RandomStream random(static_cast<std::uint64_t>(size));
  for (auto& byte : rows) byte = static_cast<std::uint8_t>(random.next());
  return rows;
}

std::size_t stride_for(int size) { return (static_cast<std::size_t>(size) * 4 + 31) / 32 * 32; }

void write_all(const Normaliser& normaliser, const std::vector<std::uint8_t>& rows, int size, std::span<std::byte> sample) {
  const std::size_t stride = stride_for(size);
  for (int row = 0; row < size; row += 5) {
    normaliser.write({rows.data() + stride * static_cast<std::size_t>(row), stride, row, std::min(5, size - row)}, sample);
  }
}

}  // namespace

TEST_CASE("float samples hold (value / 255 - mean) / deviation where the layout says, bytes hold the value") {
  ImagePrep prep;
  prep.crop_size = 11;
  const auto rows = noise_rows(11, stride_for(11));
  for (const Format& format : formats) {
    const bool is_float = format.dtype == DType::float32;
    Room room(std::size_t{11} * 11 * 3 * (is_float ? 4 : 1), 0);
    write_all(Normaliser(prep, format.dtype, format.layout), rows, 11, room.span());
    for (std::size_t y = 0; y < 11; ++y) {
      for (std::size_t x = 0; x < 11; ++x) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
          const std::size_t place = format.layout == Layout::nchw ? (channel * 11 + y) * 11 + x : (y * 11 + x) * 3 + channel;
          const std::uint8_t value = rows[y * stride_for(11) + x * 4 + channel];
          if (is_float) {
            float written = 0;
            std::memcpy(&written, room.span().data() + place * 4, 4);
            REQUIRE(written == doctest::Approx((value / 255.0 - prep.mean[channel]) / prep.deviation[channel]).epsilon(1e-5));
          } else {
            REQUIRE(std::to_integer<int>(room.span()[place]) == value);
          }
        }
      }
    }
  }
}

TEST_CASE("the fast normalise gives the bytes of the plain one and touches nothing else, at every width and alignment") {
  if (&best_normalise_kernels() == &plain_normalise_kernels) {
    MESSAGE("this processor has no fast normalise");
    return;
  }
  for (const Format& format : formats) {
    for (int size = 1; size <= 40; ++size) {
      for (const std::size_t shift : {0, 4, 32}) {
        CAPTURE(size);
        CAPTURE(shift);
        ImagePrep prep;
        prep.crop_size = size;
        const auto rows = noise_rows(size, stride_for(size));
        const std::size_t bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3 * (format.dtype == DType::float32 ? 4 : 1);
        Room fast(bytes, shift);
        Room plain(bytes, shift);
        write_all(Normaliser(prep, format.dtype, format.layout, best_normalise_kernels()), rows, size, fast.span());
        write_all(Normaliser(prep, format.dtype, format.layout, plain_normalise_kernels), rows, size, plain.span());
        REQUIRE(std::ranges::equal(fast.span(), plain.span()));
        REQUIRE(fast.surroundings_untouched());
      }
    }
  }
}
