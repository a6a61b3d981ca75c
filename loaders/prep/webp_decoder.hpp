#pragma once

#include <cstddef>
#include <span>

#include <webp/decode.h>

#include "image_decoder.hpp"

namespace dsanalyze {

/// Decodes a rectangle of a lossy or lossless WebP image; the same pixels as a full decode has there, without transparency. The library decodes
/// nothing below the rectangle, all of what is above it, and writes all rows at once into a buffer of the rectangle's size. Animated images are
/// unsupported. No scaling.
class WebpDecoder final : public ImageDecoder {
 public:
  Status open(std::span<const std::byte> encoded) override;
  [[nodiscard]] const ImageInfo& info() const override { return m_info; }
  [[nodiscard]] int largest_denominator() const override { return 1; }
  Status begin(const PixelRectangle& rectangle, int denominator) override;
  Status next_rows(PixelRows& rows) override;

 private:
  std::span<const std::byte> m_encoded;
  ImageInfo m_info;
  PixelBuffer m_pixels;
  PixelRows m_rows;  ///< those not given yet
};

}  // namespace dsanalyze
