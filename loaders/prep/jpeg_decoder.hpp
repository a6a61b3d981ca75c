#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include <jpeglib.h>

#include <jerror.h>

#include "image_decoder.hpp"

namespace dsanalyze {

/// The rule for every reader of JPEG files: of what libjpeg only warns about, one thing makes a file unusable, that it ended before its image did.
///
/// Pillow and torchvision have the same rule. They decode odd progressions, bytes between markers and segments that are damaged, which the library
/// patches, and so must a loader in their place.
constexpr bool is_truncation(int warning) { return warning == JWRN_JPEG_EOF; }

/// Whether a warning means that image data is damaged and that the library patched it: it took zeros for codes that it could not read, and skipped
/// what it could not place, so pixels differ from those that were encoded. `scan` is the number of the scan that is read, 0 before the first one:
/// bytes that are skipped there hold no pixels. Odd progressions and parameters of scans, versions of JFIF, transforms of Adobe's and profiles are no
/// damage either.
constexpr bool is_patched_damage(int warning, int scan) {
  switch (warning) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return scan > 0;
    default:
      return false;
  }
}

/// Decodes a rectangle of a JPEG image, strip by strip. The library is only fed as far as the rectangle's last row, and only the columns of the
/// rectangle go through the inverse transform and the colour conversion, where that gives the bytes of a full decode; else whole rows do. Sizes 1/1,
/// 1/2, 1/4 and 1/8.
///
/// What Pillow decodes is decoded, to the same bytes: of the library's warnings only one is an error, that the file ended before the image did.
class JpegDecoder final : public ImageDecoder {
 public:
  /// Throws Error if the library refuses to start.
  JpegDecoder();
  ~JpegDecoder() override;
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  Status open(std::span<const std::byte> encoded) override;
  [[nodiscard]] const ImageInfo& info() const override { return m_info; }
  [[nodiscard]] int largest_denominator() const override { return 8; }
  Status begin(const PixelRectangle& rectangle, int denominator) override;
  Status next_rows(PixelRows& rows) override;
  /// Why the last call failed, in the library's words where it knew.
  [[nodiscard]] std::string cause() const { return m_cause.data(); }
  /// The first damage of image data, in the library's words, that it patched in what was decoded since open(); "" for none.
  [[nodiscard]] std::string patched_damage() const { return m_error.patched_damage.data(); }

 private:
  /// What the library calls instead of printing and ending the program.
  struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf jump;
    Status status;
    std::array<char, JMSG_LENGTH_MAX> patched_damage;
  };
  [[noreturn]] static void on_error(j_common_ptr common);
  static void on_message(j_common_ptr common, int level);

  Status fail();
  Status refuse(StatusCode code, const char* cause);
  Status check_header(std::size_t encoded_bytes);
  [[nodiscard]] bool columns_decode_alone() const;
  [[nodiscard]] bool is_smoothed() const;
  void convert_inks(int rows);
  [[nodiscard]] bool end_of_image_follows() const;

  jpeg_decompress_struct m_jpeg{};
  ErrorManager m_error{};
  std::array<char, JMSG_LENGTH_MAX> m_cause{};
  ImageInfo m_info;
  PixelBuffer m_strip;
  std::size_t m_stride = 0;
  std::size_t m_left_bytes = 0;  ///< of a row, before the rectangle's first pixel
  int m_rows_left = 0;
};

}  // namespace dsanalyze
