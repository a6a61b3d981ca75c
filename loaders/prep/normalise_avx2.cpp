#include <immintrin.h>

#include "kernels.hpp"

namespace dsanalyze {
namespace {

constexpr std::ptrdiff_t channels = 3;
constexpr std::ptrdiff_t group = 8;  ///< pixels at a time

/// Past the caches: a prepared sample is next read by another processor or device, or much later.
enum class Store { cached, streaming };

template <Store store>
void store_floats(float* target, __m256 values) {
  if constexpr (store == Store::streaming) {
    _mm256_stream_ps(target, values);
  } else {
    _mm256_storeu_ps(target, values);
  }
}

__m256 scaled(__m256i values, __m256 scale, __m256 offset) { return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(values), scale), offset); }

float scaled(std::uint8_t value, const SampleTarget& target, std::ptrdiff_t channel) {
  return static_cast<float>(value) * target.scale[channel] + target.offset[channel];
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % sizeof(__m256) == 0; }

template <Store store>
void float_planes_rows(const SampleRows& rows, const SampleTarget& target) {
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(target.width) * target.height;
  const __m256i low_byte = _mm256_set1_epi32(0xFF);
  __m256 scale[channels];
  __m256 offset[channels];
  for (std::ptrdiff_t channel = 0; channel < channels; ++channel) {
    scale[channel] = _mm256_set1_ps(target.scale[channel]);
    offset[channel] = _mm256_set1_ps(target.offset[channel]);
  }
  for (int row = 0; row < rows.rows; ++row) {
    const std::uint8_t* pixels = rows.pixels + rows.stride * static_cast<std::size_t>(row);
    float* red = static_cast<float*>(target.sample) + static_cast<std::ptrdiff_t>(target.width) * (rows.first_row + row);
    std::ptrdiff_t x = 0;
    for (; x + group <= target.width; x += group) {
      const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + x * bytes_per_pixel));
      store_floats<store>(red + x, scaled(_mm256_and_si256(eight, low_byte), scale[0], offset[0]));
      store_floats<store>(red + plane + x, scaled(_mm256_and_si256(_mm256_srli_epi32(eight, 8), low_byte), scale[1], offset[1]));
      store_floats<store>(red + 2 * plane + x, scaled(_mm256_and_si256(_mm256_srli_epi32(eight, 16), low_byte), scale[2], offset[2]));
    }
    for (; x < target.width; ++x) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel)
        red[channel * plane + x] = scaled(pixels[x * bytes_per_pixel + channel], target, channel);
    }
  }
  if constexpr (store == Store::streaming) _mm_sfence();
}

/// Eight pixels of four bytes to 24 bytes: the low lane's twelve, the high lane's twelve.
__m256i without_fourth_byte(__m256i eight) {
  const __m256i pack = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(eight, pack), _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7));
}

template <Store store>
void float_pixels_rows(const SampleRows& rows, const SampleTarget& target) {
  __m256 scale[channels];
  __m256 offset[channels];
  for (std::ptrdiff_t part = 0; part < channels; ++part) {
    float scales[group];
    float offsets[group];
    for (std::ptrdiff_t lane = 0; lane < group; ++lane) {
      scales[lane] = target.scale[(part * group + lane) % channels];
      offsets[lane] = target.offset[(part * group + lane) % channels];
    }
    scale[part] = _mm256_loadu_ps(scales);
    offset[part] = _mm256_loadu_ps(offsets);
  }
  for (int row = 0; row < rows.rows; ++row) {
    const std::uint8_t* pixels = rows.pixels + rows.stride * static_cast<std::size_t>(row);
    float* out = static_cast<float*>(target.sample) + channels * target.width * (rows.first_row + row);
    std::ptrdiff_t x = 0;
    for (; x + group <= target.width; x += group) {
      const __m256i bytes = without_fourth_byte(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + x * bytes_per_pixel)));
      const __m128i low = _mm256_castsi256_si128(bytes);
      const __m128i high = _mm256_extracti128_si256(bytes, 1);
      float* place = out + x * channels;
      store_floats<store>(place, scaled(_mm256_cvtepu8_epi32(low), scale[0], offset[0]));
      store_floats<store>(place + group, scaled(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8)), scale[1], offset[1]));
      store_floats<store>(place + 2 * group, scaled(_mm256_cvtepu8_epi32(high), scale[2], offset[2]));
    }
    for (; x < target.width; ++x) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel)
        out[x * channels + channel] = scaled(pixels[x * bytes_per_pixel + channel], target, channel);
    }
  }
  if constexpr (store == Store::streaming) _mm_sfence();
}

/// Streaming stores want every group of every row and plane aligned.
bool may_stream(const SampleTarget& target) { return target.width % group == 0 && aligned(target.sample); }

void float_planes(const SampleRows& rows, const SampleTarget& target) {
  may_stream(target) ? float_planes_rows<Store::streaming>(rows, target) : float_planes_rows<Store::cached>(rows, target);
}

void float_pixels(const SampleRows& rows, const SampleTarget& target) {
  may_stream(target) ? float_pixels_rows<Store::streaming>(rows, target) : float_pixels_rows<Store::cached>(rows, target);
}

void byte_planes(const SampleRows& rows, const SampleTarget& target) {
  const std::ptrdiff_t plane = static_cast<std::ptrdiff_t>(target.width) * target.height;
  const __m256i by_channel = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m256i join_lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int row = 0; row < rows.rows; ++row) {
    const std::uint8_t* pixels = rows.pixels + rows.stride * static_cast<std::size_t>(row);
    std::uint8_t* red = static_cast<std::uint8_t*>(target.sample) + static_cast<std::ptrdiff_t>(target.width) * (rows.first_row + row);
    std::ptrdiff_t x = 0;
    for (; x + group <= target.width; x += group) {
      const __m256i eight = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + x * bytes_per_pixel));
      const __m256i sorted = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(eight, by_channel), join_lanes);
      const __m128i red_green = _mm256_castsi256_si128(sorted);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(red + x), red_green);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(red + plane + x), _mm_srli_si128(red_green, 8));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(red + 2 * plane + x), _mm256_extracti128_si256(sorted, 1));
    }
    for (; x < target.width; ++x) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel) red[channel * plane + x] = pixels[x * bytes_per_pixel + channel];
    }
  }
}

void byte_pixels(const SampleRows& rows, const SampleTarget& target) {
  for (int row = 0; row < rows.rows; ++row) {
    const std::uint8_t* pixels = rows.pixels + rows.stride * static_cast<std::size_t>(row);
    std::uint8_t* out = static_cast<std::uint8_t*>(target.sample) + channels * target.width * (rows.first_row + row);
    std::ptrdiff_t x = 0;
    for (; x + group <= target.width; x += group) {
      const __m256i bytes = without_fourth_byte(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels + x * bytes_per_pixel)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x * channels), _mm256_castsi256_si128(bytes));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x * channels + 16), _mm256_extracti128_si256(bytes, 1));
    }
    for (; x < target.width; ++x) {
      for (std::ptrdiff_t channel = 0; channel < channels; ++channel) out[x * channels + channel] = pixels[x * bytes_per_pixel + channel];
    }
  }
}

}  // namespace

const NormaliseKernels avx2_normalise_kernels{float_planes, float_pixels, byte_planes, byte_pixels};

}  // namespace dsanalyze
