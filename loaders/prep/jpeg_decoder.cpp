#include "jpeg_decoder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <jerror.h>

#include "dsanalyze/base/error.hpp"

namespace dsanalyze {
namespace {

/// Each block of 8 x 8 samples takes at least a bit; in the sparsest legal sampling an image has one block for 128 pixels. Twice that is allowed. So
/// a small file cannot make us allocate for a huge image.
constexpr std::int64_t max_pixels_per_byte = 2048;

bool spoils_pixels(int warning) {
  switch (warning) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return false;
    default:
      return true;
  }
}

Status status_of_error(int code) {
  switch (code) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return {StatusCode::unsupported};
    case JERR_OUT_OF_MEMORY:
      return {StatusCode::io, ENOMEM};
    default:
      return {StatusCode::corrupt};
  }
}

/// a x b / 255, rounded.
std::uint8_t multiply_255(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

}  // namespace

void JpegDecoder::on_error(j_common_ptr common) {
  auto* manager = reinterpret_cast<ErrorManager*>(common->err);
  manager->status = status_of_error(common->err->msg_code);
  std::longjmp(manager->jump, 1);
}

void JpegDecoder::on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  ++common->err->num_warnings;
  if (!spoils_pixels(common->err->msg_code)) return;
  auto* manager = reinterpret_cast<ErrorManager*>(common->err);
  manager->status = {StatusCode::corrupt};
  std::longjmp(manager->jump, 1);
}

JpegDecoder::JpegDecoder() {
  m_jpeg.err = jpeg_std_error(&m_error.base);
  m_error.base.error_exit = on_error;
  m_error.base.emit_message = on_message;
  if (setjmp(m_error.jump) != 0) {
    if (m_error.status.detail == ENOMEM) throw_errno("cannot start", "libjpeg", ENOMEM);
    throw Error("libjpeg refuses to start: it was built for another version");
  }
  jpeg_create_decompress(&m_jpeg);
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&m_jpeg); }

Status JpegDecoder::fail() {
  jpeg_abort_decompress(&m_jpeg);
  m_rows_left = 0;
  return m_error.status;
}

Status JpegDecoder::open(std::span<const std::byte> encoded) {
  m_rows_left = 0;
  if (setjmp(m_error.jump) != 0) return fail();
  // Made anew for each image: the library keeps the tables of those before, and one that lacks its own would look as they make it look.
  jpeg_destroy_decompress(&m_jpeg);
  jpeg_create_decompress(&m_jpeg);
  if (encoded.empty()) return {StatusCode::corrupt};
  jpeg_mem_src(&m_jpeg, reinterpret_cast<const unsigned char*>(encoded.data()), static_cast<unsigned long>(encoded.size()));
  jpeg_read_header(&m_jpeg, TRUE);
  m_info = {static_cast<int>(m_jpeg.image_width), static_cast<int>(m_jpeg.image_height), m_jpeg.num_components, m_jpeg.progressive_mode == TRUE,
            ImageFormat::jpeg};
  const Status status = check_header(encoded.size());
  if (!status.ok()) jpeg_abort_decompress(&m_jpeg);
  return status;
}

Status JpegDecoder::check_header(std::size_t encoded_bytes) {
  const std::int64_t pixels = std::int64_t{m_info.width} * m_info.height;
  if (pixels > max_image_pixels) return {StatusCode::corrupt};
  if (m_jpeg.arith_code == FALSE && pixels / max_pixels_per_byte > static_cast<std::int64_t>(encoded_bytes)) return {StatusCode::corrupt};
  if (m_info.components != 1 && m_info.components != 3 && m_info.components != 4) return {StatusCode::unsupported};
  return {};
}

Status JpegDecoder::begin(const PixelRectangle& rectangle, int denominator) {
  if (setjmp(m_error.jump) != 0) return fail();
  m_jpeg.out_color_space = m_info.components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
  m_jpeg.scale_num = 1;
  m_jpeg.scale_denom = static_cast<unsigned>(denominator);
  m_jpeg.dct_method = JDCT_ISLOW;
  m_jpeg.do_fancy_upsampling = TRUE;
  m_jpeg.do_block_smoothing = FALSE;
  jpeg_start_decompress(&m_jpeg);

  const int left = std::max(rectangle.left - upsampling_margin, 0);
  const int right = std::min(rectangle.left + rectangle.width + upsampling_margin, static_cast<int>(m_jpeg.output_width));
  auto first_column = static_cast<JDIMENSION>(left);
  auto columns = static_cast<JDIMENSION>(right - left);
  if (columns < m_jpeg.output_width) jpeg_crop_scanline(&m_jpeg, &first_column, &columns);

  m_stride = std::size_t{m_jpeg.output_width} * bytes_per_pixel;
  m_left_bytes = (static_cast<std::size_t>(rectangle.left) - first_column) * bytes_per_pixel;
  const std::size_t needed = m_stride * strip_rows + PixelRows::padding;
  if (!m_strip.reserve(needed)) {
    m_error.status = {StatusCode::io, ENOMEM};
    return fail();
  }
  if (rectangle.top > 0) jpeg_skip_scanlines(&m_jpeg, static_cast<JDIMENSION>(rectangle.top));
  m_rows_left = rectangle.height;
  return {};
}

Status JpegDecoder::next_rows(PixelRows& rows) {
  rows = {m_strip.data() + m_left_bytes, m_stride, 0};
  if (m_rows_left == 0) return {};
  if (setjmp(m_error.jump) != 0) return fail();
  std::array<JSAMPROW, strip_rows> row_pointers;
  for (int row = 0; row < strip_rows; ++row) row_pointers[static_cast<std::size_t>(row)] = m_strip.data() + m_stride * static_cast<std::size_t>(row);
  const int wanted = std::min(strip_rows, m_rows_left);
  while (rows.count < wanted) {
    rows.count += static_cast<int>(jpeg_read_scanlines(&m_jpeg, row_pointers.data() + rows.count, static_cast<JDIMENSION>(wanted - rows.count)));
  }
  if (m_jpeg.out_color_space == JCS_CMYK) convert_inks(rows.count);
  m_rows_left -= wanted;
  if (m_rows_left > 0) return {};
  const bool whole = end_of_image_follows();
  jpeg_abort_decompress(&m_jpeg);
  return {whole ? StatusCode::ok : StatusCode::corrupt};
}

bool JpegDecoder::end_of_image_follows() const {
  if (jpeg_input_complete(const_cast<j_decompress_ptr>(&m_jpeg)) == TRUE || m_jpeg.unread_marker == JPEG_EOI) return true;
  const unsigned char* at = m_jpeg.src->next_input_byte;
  const unsigned char* end = at + m_jpeg.src->bytes_in_buffer;
  if (end - at >= 2 && end[-2] == 0xFF && end[-1] == JPEG_EOI) return true;
  for (; end - at >= 2; ++at) {
    at = static_cast<const unsigned char*>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at - 1)));
    if (at == nullptr) return false;
    if (at[1] == JPEG_EOI) return true;
  }
  return false;
}

void JpegDecoder::convert_inks(int rows) {
  // Adobe's programs store inks inverted: 255 is no ink.
  const unsigned inverted = m_jpeg.saw_Adobe_marker == TRUE ? 0 : 255;
  std::uint8_t* pixel = m_strip.data();
  const std::uint8_t* end = pixel + m_stride * static_cast<std::size_t>(rows);
  for (; pixel != end; pixel += bytes_per_pixel) {
    const unsigned white = pixel[3] ^ inverted;
    for (int channel = 0; channel < 3; ++channel) pixel[channel] = multiply_255(pixel[channel] ^ inverted, white);
  }
}

}  // namespace dsanalyze
