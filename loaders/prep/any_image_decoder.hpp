#pragma once

#include <string>

#include "image_decoder.hpp"
#include "jpeg_decoder.hpp"
#include "png_decoder.hpp"
#include "webp_decoder.hpp"

namespace dsanalyze {

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
