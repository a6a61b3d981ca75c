#pragma once

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "image_decoder.hpp"

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

constexpr std::size_t png_signature_bytes = 8;

/// Where the image data lies in a PNG file, found without unpacking anything.
struct PngOutline {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::size_t first_data = 0;  ///< offset of the first chunk of image data
};

/// Walks from chunk to chunk. False unless the file begins with a header, has image data and reaches its end chunk, each chunk within the file.
bool read_png_outline(std::span<const std::byte> encoded, PngOutline& outline);

/// Whether the checksums are right of all chunks from the one at `first` to the one that holds the byte before `position`. Requires a file whose
/// outline could be read, and a chunk at `first`.
bool png_chunks_are_intact(std::span<const std::byte> encoded, std::size_t first, std::size_t position);

}  // namespace dsanalyze
