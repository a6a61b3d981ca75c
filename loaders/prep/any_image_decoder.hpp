#pragma once

#include <webp/decode.h>

#include <cstddef>
#include <span>
#include <string>

#include "image_decoder.hpp"
#include "jpeg_decoder.hpp"
#include "png_decoder.hpp"

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

/// Decodes images of every format, each by what its first bytes say it is. What has no known beginning is corrupt.
class AnyImageDecoder final : public ImageDecoder {
 public:
  Status open(std::span<const std::byte> encoded) override;
  [[nodiscard]] const ImageInfo& info() const override { return m_current->info(); }
  [[nodiscard]] int largest_denominator() const override { return m_current->largest_denominator(); }
  Status begin(const PixelRectangle& rectangle, int denominator) override { return m_current->begin(rectangle, denominator); }
  Status next_rows(PixelRows& rows) override { return m_current->next_rows(rows); }
  /// Why the last call failed; of JPEG.
  [[nodiscard]] std::string jpeg_cause() const { return m_jpeg.cause(); }
  /// As JpegDecoder's, of the image opened last; "" for other formats, whose libraries patch nothing.
  [[nodiscard]] std::string patched_damage() const { return m_current == &m_jpeg ? m_jpeg.patched_damage() : ""; }

 private:
  JpegDecoder m_jpeg;
  PngDecoder m_png;
  WebpDecoder m_webp;
  ImageDecoder* m_current = &m_jpeg;
};

}  // namespace dsanalyze
