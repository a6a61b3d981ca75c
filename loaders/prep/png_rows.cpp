#include "png_rows.hpp"

#include <algorithm>
#include <cstring>

#include <png.h>

#include "image_decoder.hpp"

namespace dsanalyze {

template <int pixel_bytes, int red, int green, int blue>
void PngRowConverter::convert_values(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  stored += std::ptrdiff_t{left} * pixel_bytes;
  for (int pixel = 0; pixel < width; ++pixel, stored += pixel_bytes, target += bytes_per_pixel) {
    const Color color{stored[red], stored[green], stored[blue], 255};
    std::memcpy(target, color.data(), bytes_per_pixel);
  }
}

void PngRowConverter::convert_rgba(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  std::memcpy(target, stored + static_cast<std::size_t>(left) * bytes_per_pixel, static_cast<std::size_t>(width) * bytes_per_pixel);
}

void PngRowConverter::look_up_bytes(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  for (int pixel = 0; pixel < width; ++pixel, target += bytes_per_pixel) std::memcpy(target, m_colors[stored[left + pixel]].data(), bytes_per_pixel);
}

void PngRowConverter::look_up_bits(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  const unsigned mask = (1U << m_bits) - 1;
  for (int pixel = left; pixel < left + width; ++pixel, target += bytes_per_pixel) {
    const int bit = pixel * m_bits;
    const unsigned value = (static_cast<unsigned>(stored[bit / 8]) >> (8 - m_bits - bit % 8)) & mask;
    std::memcpy(target, m_colors[value].data(), bytes_per_pixel);
  }
}

PngRowConverter::Convert PngRowConverter::choose(const PngPixels& pixels) {
  const bool wide = pixels.bit_depth == 16;
  switch (pixels.color_type) {
    case PNG_COLOR_TYPE_RGB:
      return wide ? &PngRowConverter::convert_values<6, 0, 2, 4> : &PngRowConverter::convert_values<3, 0, 1, 2>;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return wide ? &PngRowConverter::convert_values<8, 0, 2, 4> : &PngRowConverter::convert_rgba;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return wide ? &PngRowConverter::convert_values<4, 0, 0, 0> : &PngRowConverter::convert_values<2, 0, 0, 0>;
    default:
      if (wide) return &PngRowConverter::convert_values<2, 0, 0, 0>;
      return pixels.bit_depth == 8 ? &PngRowConverter::look_up_bytes : &PngRowConverter::look_up_bits;
  }
}

void PngRowConverter::prepare(const PngPixels& pixels, std::span<const Color> palette) {
  m_convert = choose(pixels);
  m_bits = pixels.bit_depth;
  if (pixels.color_type == PNG_COLOR_TYPE_PALETTE) {
    const auto end = std::copy(palette.begin(), palette.end(), m_colors.begin());
    std::fill(end, m_colors.end(), Color{});
  } else if (pixels.color_type == PNG_COLOR_TYPE_GRAY && pixels.bit_depth <= 8) {
    const unsigned white = (1U << m_bits) - 1;
    for (unsigned value = 0; value <= white; ++value) {
      const auto grey = static_cast<std::uint8_t>(value * 255 / white);
      m_colors[value] = {grey, grey, grey, 255};
    }
  }
}

}  // namespace dsanalyze
