#include <immintrin.h>

#include "kernels.hpp"

namespace dsanalyze {
namespace {

__m256i rounding() { return _mm256_set1_epi32(1 << (AxisTaps::weight_bits - 1)); }

/// Two neighbouring weights, side by side in all lanes.
__m256i weight_pair(const std::int16_t* weights) {
  std::int32_t pair;
  __builtin_memcpy(&pair, weights, sizeof(pair));
  return _mm256_set1_epi32(pair);
}

__m128i load_16(const std::uint8_t* bytes) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)); }

/// Sums in 32 bits of four vectors to bytes in order.
__m256i to_bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
  constexpr int bits = AxisTaps::weight_bits;
  const __m256i ab = _mm256_packs_epi32(_mm256_srai_epi32(a, bits), _mm256_srai_epi32(b, bits));
  const __m256i cd = _mm256_packs_epi32(_mm256_srai_epi32(c, bits), _mm256_srai_epi32(d, bits));
  return _mm256_packus_epi16(ab, cd);
}

/// The sums of one output pixel for two rows: one in the low lane, one in the high. known_taps is 0 where only the run knows.
template <int known_taps>
__m256i sum_pixel(const std::uint8_t* row_a, const std::uint8_t* row_b, const std::int16_t* weights, int run_taps) {
  const int taps = known_taps > 0 ? known_taps : run_taps;
  // Bytes of two neighbouring pixels widened and interleaved by channel, as the pairwise multiply-add wants them.
  const __m256i first_two = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m256i last_two = _mm256_broadcastsi128_si256(_mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  __m256i sum = rounding();
  int tap = 0;
  for (; tap + 4 <= taps; tap += 4) {
    const __m256i pixels =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(row_a + tap * bytes_per_pixel)), load_16(row_b + tap * bytes_per_pixel), 1);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, first_two), weight_pair(weights + tap)));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, last_two), weight_pair(weights + tap + 2)));
  }
  if (tap < taps) {
    const __m256i pixels =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(row_a + tap * bytes_per_pixel)), load_16(row_b + tap * bytes_per_pixel), 1);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, first_two), weight_pair(weights + tap)));
  }
  return sum;
}

template <int known_taps>
void narrow_two_rows(const std::uint8_t* row_a, const std::uint8_t* row_b, const AxisTaps& taps, std::uint8_t* target_a, std::uint8_t* target_b) {
  const std::int16_t* weights = taps.weights;
  const std::ptrdiff_t step = known_taps > 0 ? known_taps : taps.taps;
  for (int output = 0; output < taps.outputs; output += 4, weights += 4 * step) {
    __m256i sums[4];
    for (int pixel = 0; pixel < 4; ++pixel) {
      const std::ptrdiff_t offset = taps.first[output + pixel] * bytes_per_pixel;
      sums[pixel] = sum_pixel<known_taps>(row_a + offset, row_b + offset, weights + pixel * step, taps.taps);
    }
    const __m256i bytes = to_bytes(sums[0], sums[1], sums[2], sums[3]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target_a + output * bytes_per_pixel), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target_b + output * bytes_per_pixel), _mm256_extracti128_si256(bytes, 1));
  }
}

void horizontal(const std::uint8_t* source, std::size_t source_stride, int rows, const AxisTaps& taps, std::uint8_t* target,
                std::size_t target_stride) {
  const auto narrow = taps.taps == 2   ? narrow_two_rows<2>
                      : taps.taps == 4 ? narrow_two_rows<4>
                      : taps.taps == 6 ? narrow_two_rows<6>
                      : taps.taps == 8 ? narrow_two_rows<8>
                                       : narrow_two_rows<0>;
  for (int row = 0; row < rows; row += 2, source += 2 * source_stride, target += 2 * target_stride) {
    const bool pair = row + 1 < rows;
    narrow(source, pair ? source + source_stride : source, taps, target, pair ? target + target_stride : target);
  }
}

void vertical(const std::uint8_t* source, std::size_t stride, int first_output, int count, const AxisTaps& taps, std::uint8_t* target) {
  const __m256i zero = _mm256_setzero_si256();
  for (int output = first_output; output < first_output + count; ++output, target += stride) {
    const std::uint8_t* rows = source + stride * static_cast<std::size_t>(taps.first[output]);
    const std::int16_t* weights = taps.weights + static_cast<std::ptrdiff_t>(output) * taps.taps;
    for (std::size_t at = 0; at < stride; at += 32) {
      __m256i sums[4] = {rounding(), rounding(), rounding(), rounding()};
      const std::uint8_t* row = rows + at;
      for (int tap = 0; tap < taps.taps; tap += 2, row += 2 * stride) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + stride));
        const __m256i weight = weight_pair(weights + tap);
        const __m256i low = _mm256_unpacklo_epi8(a, b);
        const __m256i high = _mm256_unpackhi_epi8(a, b);
        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), weight));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), weight));
        sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), weight));
        sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), weight));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + at), to_bytes(sums[0], sums[1], sums[2], sums[3]));
    }
  }
}

}  // namespace

const ResizeKernels avx2_resize_kernels{horizontal, vertical};

}  // namespace dsanalyze
