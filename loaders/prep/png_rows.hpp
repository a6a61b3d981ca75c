#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dsanalyze {

/// How a PNG image stores its pixels: colour type and bits a value as in its header.
struct PngPixels {
  int color_type = 0;
  int bit_depth = 8;
};

/// Turns stored PNG rows into pixels of four bytes (PixelRows). Only the pixels asked for are touched. Transparency is dropped, of 16 bits the upper
/// eight count.
class PngRowConverter {
 public:
  using Color = std::array<std::uint8_t, 4>;

  /// `palette`: of images that have one; indices past it are black.
  void prepare(const PngPixels& pixels, std::span<const Color> palette);
  /// Pixels [left, left + width) of a stored row.
  void convert(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const { (this->*m_convert)(stored, left, width, target); }

 private:
  using Convert = void (PngRowConverter::*)(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const;

  template <int pixel_bytes, int red, int green, int blue>
  void convert_values(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const;
  void convert_rgba(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const;
  void look_up_bytes(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const;
  void look_up_bits(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const;
  [[nodiscard]] static Convert choose(const PngPixels& pixels);

  Convert m_convert = &PngRowConverter::convert_rgba;
  int m_bits = 8;
  std::array<Color, 256> m_colors{};  ///< of palettes, and of grey up to 8 bits
};

}  // namespace dsanalyze
