#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <span>

#include <png.h>

#include "image_decoder.hpp"
#include "pixel_buffer.hpp"
#include "png_rows.hpp"

namespace dsanalyze {

/// Decodes a rectangle of a PNG image of any kind. Rows above it are unpacked but not converted, nothing is unpacked below it; an interlaced image is
/// unpacked whole, but only the rectangle's rows are kept. Same pixels as Pillow's convert("RGB"), but that of 16-bit grey the upper byte is taken
/// where Pillow clips: no transparency, no gamma, no colour profile. Chunks that the pixels do not need are skipped. The checksum of every chunk up
/// to the rectangle's end must be right. No scaling.
class PngDecoder final : public ImageDecoder {
 public:
  PngDecoder() = default;
  ~PngDecoder() override { close(); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  Status open(std::span<const std::byte> encoded) override;
  [[nodiscard]] const ImageInfo& info() const override { return m_info; }
  [[nodiscard]] int largest_denominator() const override { return 1; }
  Status begin(const PixelRectangle& rectangle, int denominator) override;
  Status next_rows(PixelRows& rows) override;

 private:
  // What the library calls.
  [[noreturn]] static void on_error(png_structp png, png_const_charp message);
  static void on_warning(png_structp png, png_const_charp message);
  static void on_read(png_structp png, png_bytep target, std::size_t bytes);
  static png_voidp on_allocate(png_structp png, png_alloc_size_t bytes);
  static void on_free(png_structp png, png_voidp memory);

  Status check_outline();
  Status read_header();
  void take_palette();
  Status fail();
  void close();
  Status skip_rows(int count);
  Status unpack_interlaced();
  Status finish();

  png_structp m_png = nullptr;
  png_infop m_png_info = nullptr;
  std::jmp_buf m_jump;
  Status m_status;
  std::span<const std::byte> m_encoded;
  std::size_t m_position = 0;    ///< in m_encoded
  std::size_t m_first_data = 0;  ///< the first chunk of image data
  ImageInfo m_info;
  PngRowConverter m_converter;
  PixelRectangle m_rectangle;
  PixelBuffer m_stored;  ///< a row as the file has it, or the rectangle's rows of an interlaced image
  std::size_t m_stored_stride = 0;
  PixelBuffer m_strip;
  int m_rows_left = 0;
};

}  // namespace dsanalyze
