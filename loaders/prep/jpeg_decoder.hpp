#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>

#include <jpeglib.h>

#include "dsanalyze/base/status.hpp"
#include "dsanalyze/loaders/prep.hpp"

namespace dsanalyze {

/// A rectangle of an image, in pixels.
struct PixelRectangle {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

/// Some decoded rows, four bytes a pixel: red, green, blue and one without meaning. `padding` more bytes may be read behind the last row.
struct PixelRows {
  static constexpr std::size_t padding = 64;
  const std::uint8_t* first = nullptr;
  std::size_t stride = 0;
  int count = 0;
};

/// Images with more pixels are refused as corrupt.
constexpr std::int64_t max_image_pixels = 256'000'000;

/// Decodes a rectangle of a JPEG image, strip by strip. The library is only fed as far as the rectangle's last row, and only the columns of the
/// rectangle go through the inverse transform and the colour conversion. Results differ from a full decode in no pixel by more than the library's own
/// rounding. A file that ends before its end-of-image marker is corrupt wherever the rectangle lies.
/// Threads: one. Allocation: the library's pools, and the strip when it grows. Errors: corrupt, unsupported (a kind of JPEG that is not handled), io
/// (no memory). After an error, or in mid-image, open() starts anew.
class JpegDecoder {
 public:
  /// Throws Error if the library refuses to start.
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Reads the header. `encoded` must stay until the last row was read.
  Status open(std::span<const std::byte> encoded);
  [[nodiscard]] const ImageInfo& info() const { return m_info; }
  /// Size of the image when it is decoded at 1/denominator, rounded up.
  [[nodiscard]] static int scaled_size(int size, int denominator) { return (size + denominator - 1) / denominator; }

  /// Begins to decode `rectangle` of the image at 1/denominator (1, 2, 4 or 8) of its size, in pixels of that smaller image. Once after open().
  Status begin(const PixelRectangle& rectangle, int denominator);
  /// The next rows of the rectangle, at least one while any is left, else none. They stay until the next call.
  Status next_rows(PixelRows& rows);

 private:
  /// What the library calls instead of printing and ending the program.
  struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf jump;
    Status status;
  };
  [[noreturn]] static void on_error(j_common_ptr common);
  static void on_message(j_common_ptr common, int level);

  Status fail();
  Status check_header(std::size_t encoded_bytes);
  void convert_inks(int rows);
  [[nodiscard]] bool end_of_image_follows() const;

  jpeg_decompress_struct m_jpeg{};
  ErrorManager m_error{};
  ImageInfo m_info;
  std::unique_ptr<std::uint8_t[]> m_strip;
  std::size_t m_strip_bytes = 0;
  std::size_t m_stride = 0;
  std::size_t m_left_bytes = 0;  ///< of a row, before the rectangle's first pixel
  int m_rows_left = 0;
};

}  // namespace dsanalyze
