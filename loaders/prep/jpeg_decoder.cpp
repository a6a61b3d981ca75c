#include "jpeg_decoder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <jerror.h>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

/// Each block of 8 x 8 samples takes at least a bit; in the sparsest legal sampling an image has one block for 128 pixels. Twice that is allowed. So
/// a small file cannot make us allocate for a huge image.
constexpr std::int64_t max_pixels_per_byte = 2048;

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
  auto* manager = reinterpret_cast<ErrorManager*>(common->err);
  const int scan = reinterpret_cast<j_decompress_ptr>(common)->input_scan_number;
  if (is_patched_damage(common->err->msg_code, scan) && manager->patched_damage.front() == '\0')
    (*common->err->format_message)(common, manager->patched_damage.data());
  if (!is_truncation(common->err->msg_code)) return;
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

/// After a jump: the error manager still has what the message is made of.
Status JpegDecoder::fail() {
  (*m_error.base.format_message)(reinterpret_cast<j_common_ptr>(&m_jpeg), m_cause.data());
  jpeg_abort_decompress(&m_jpeg);
  m_rows_left = 0;
  return m_error.status;
}

Status JpegDecoder::refuse(StatusCode code, const char* cause) {
  std::snprintf(m_cause.data(), m_cause.size(), "%s", cause);
  jpeg_abort_decompress(&m_jpeg);
  m_rows_left = 0;
  return {code, code == StatusCode::io ? ENOMEM : 0};
}

Status JpegDecoder::open(std::span<const std::byte> encoded) {
  m_rows_left = 0;
  m_error.patched_damage.front() = '\0';
  if (setjmp(m_error.jump) != 0) return fail();
  // Made anew for each image: the library keeps the tables of those before, and one that lacks its own would look as they make it look.
  jpeg_destroy_decompress(&m_jpeg);
  jpeg_create_decompress(&m_jpeg);
  if (encoded.empty()) return refuse(StatusCode::corrupt, "the file is empty");
  jpeg_mem_src(&m_jpeg, reinterpret_cast<const unsigned char*>(encoded.data()), static_cast<unsigned long>(encoded.size()));
  jpeg_read_header(&m_jpeg, TRUE);
  m_info = {static_cast<int>(m_jpeg.image_width), static_cast<int>(m_jpeg.image_height), m_jpeg.num_components, m_jpeg.progressive_mode == TRUE,
            ImageFormat::jpeg};
  return check_header(encoded.size());
}

Status JpegDecoder::check_header(std::size_t encoded_bytes) {
  const std::int64_t pixels = std::int64_t{m_info.width} * m_info.height;
  const bool too_few_bytes = m_jpeg.arith_code == FALSE && pixels / max_pixels_per_byte > static_cast<std::int64_t>(encoded_bytes);
  if (pixels > max_image_pixels || too_few_bytes) {
    std::array<char, JMSG_LENGTH_MAX> text{};
    std::snprintf(text.data(), text.size(), "absurd dimensions: %d x %d", m_info.width, m_info.height);
    return refuse(StatusCode::corrupt, text.data());
  }
  if (m_info.components != 1 && m_info.components != 3 && m_info.components != 4)
    return refuse(StatusCode::unsupported, "an image of neither one, three nor four components");
  return {};
}

Status JpegDecoder::begin(const PixelRectangle& rectangle, int denominator) {
  if (setjmp(m_error.jump) != 0) return fail();
  m_jpeg.out_color_space = m_info.components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
  m_jpeg.scale_num = 1;
  m_jpeg.scale_denom = static_cast<unsigned>(denominator);
  m_jpeg.dct_method = JDCT_ISLOW;
  m_jpeg.do_fancy_upsampling = TRUE;
  m_jpeg.do_block_smoothing = TRUE;  // of progressive images whose last scans were never written
  jpeg_start_decompress(&m_jpeg);

  const int left = std::max(rectangle.left - upsampling_margin, 0);
  const int right = std::min(rectangle.left + rectangle.width + upsampling_margin, static_cast<int>(m_jpeg.output_width));
  JDIMENSION first_column = 0;
  auto columns = static_cast<JDIMENSION>(right - left);
  if (columns < m_jpeg.output_width && columns_decode_alone()) {
    first_column = static_cast<JDIMENSION>(left);
    jpeg_crop_scanline(&m_jpeg, &first_column, &columns);
  }

  m_stride = std::size_t{m_jpeg.output_width} * bytes_per_pixel;
  m_left_bytes = (static_cast<std::size_t>(rectangle.left) - first_column) * bytes_per_pixel;
  const std::size_t needed = m_stride * strip_rows + PixelRows::padding;
  if (!m_strip.reserve(needed)) return refuse(StatusCode::io, "no memory for its pixels");
  if (rectangle.top > 0) jpeg_skip_scanlines(&m_jpeg, static_cast<JDIMENSION>(rectangle.top));
  m_rows_left = rectangle.height;
  return {};
}

/// False where the library's crop gives other colours than a full decode has. It takes chroma's width for that of the scale's own transform; chroma
/// that a larger transform has already scaled up (by 2 of 4, as with 4 x 2 samples at 1/2), and that is still upsampled after it, is read at the
/// wrong places. And smoothing looks at the neighbours of each block.
bool JpegDecoder::columns_decode_alone() const {
  const auto widths_agree = [this](const jpeg_component_info& component) {
    if (component.DCT_scaled_size == m_jpeg.min_DCT_scaled_size) return true;
    return component.h_samp_factor * component.DCT_scaled_size == m_jpeg.max_h_samp_factor * m_jpeg.min_DCT_scaled_size &&
           component.v_samp_factor * component.DCT_scaled_size == m_jpeg.max_v_samp_factor * m_jpeg.min_DCT_scaled_size;
  };
  const std::span components(m_jpeg.comp_info, static_cast<std::size_t>(m_jpeg.num_components));
  return std::ranges::all_of(components, widths_agree) && !is_smoothed();
}

/// Whether some bits of some coefficients never came, which the library then guesses from the blocks around.
bool JpegDecoder::is_smoothed() const {
  if (m_jpeg.progressive_mode == FALSE || m_jpeg.coef_bits == nullptr) return false;
  const auto complete = [](const int(&bits)[DCTSIZE2]) { return std::ranges::all_of(bits, [](int bit) { return bit == 0; }); };
  return !std::ranges::all_of(std::span(m_jpeg.coef_bits, static_cast<std::size_t>(m_jpeg.num_components)), complete);
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
  if (m_jpeg.output_scanline == m_jpeg.output_height) {
    jpeg_finish_decompress(&m_jpeg);  // reads on to the end of the image
    return {};
  }
  if (!end_of_image_follows()) return refuse(StatusCode::corrupt, "Premature end of JPEG file");
  jpeg_abort_decompress(&m_jpeg);
  return {};
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

/// Inks are stored inverted, 255 is none, as Adobe's programs write them. Files without Adobe's marker are taken for such as well: so do Pillow and
/// torchvision, whatever the standard says, and the files that there are were made by programs that write like Adobe's.
void JpegDecoder::convert_inks(int rows) {
  std::uint8_t* pixel = m_strip.data();
  const std::uint8_t* end = pixel + m_stride * static_cast<std::size_t>(rows);
  for (; pixel != end; pixel += bytes_per_pixel) {
    for (int channel = 0; channel < 3; ++channel) pixel[channel] = multiply_255(pixel[channel], pixel[3]);
  }
}

}  // namespace dsanalyze
