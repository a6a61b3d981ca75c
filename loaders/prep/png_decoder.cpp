#include "png_decoder.hpp"

#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "image_decoder.hpp"

// The library leaves by longjmp: no function between setjmp and a call of the library may have an object with a destructor.

namespace dsanalyze {
namespace {

constexpr int interlace_passes = 7;

/// Deflate makes at most 1032 bytes of one. So a small file cannot make us allocate for a huge image.
constexpr std::uint64_t max_stored_per_byte = 1040;

/// More than any chunk takes that the pixels need.
constexpr png_alloc_size_t most_chunk_bytes = 1 << 20;

}  // namespace

void PngDecoder::on_error(png_structp png, png_const_charp) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::longjmp(decoder->m_jump, 1);
}

void PngDecoder::on_warning(png_structp, png_const_charp) {}

void PngDecoder::on_read(png_structp png, png_bytep target, std::size_t bytes) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (bytes > decoder->m_encoded.size() - decoder->m_position) std::longjmp(decoder->m_jump, 1);
  std::memcpy(target, decoder->m_encoded.data() + decoder->m_position, bytes);
  decoder->m_position += bytes;
}

png_voidp PngDecoder::on_allocate(png_structp png, png_alloc_size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<PngDecoder*>(png_get_mem_ptr(png))->m_status = {StatusCode::io, ENOMEM};
  return memory;
}

void PngDecoder::on_free(png_structp, png_voidp memory) { std::free(memory); }

void PngDecoder::close() {
  if (m_png != nullptr) png_destroy_read_struct(&m_png, &m_png_info, nullptr);
  m_rows_left = 0;
}

Status PngDecoder::fail() {
  close();
  return m_status;
}

Status PngDecoder::open(std::span<const std::byte> encoded) {
  close();
  m_stored.trim();
  m_encoded = encoded;
  m_position = 0;
  m_status = {StatusCode::corrupt};
  const Status outline = check_outline();
  if (!outline.ok()) return outline;
  m_png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, on_allocate, on_free);
  if (m_png == nullptr) return {StatusCode::io, ENOMEM};
  const Status status = read_header();
  if (!status.ok()) close();
  return status;
}

Status PngDecoder::check_outline() {
  PngOutline outline;
  if (!read_png_outline(m_encoded, outline)) return {StatusCode::corrupt};
  if (outline.width > max_image_side || outline.height > max_image_side) return {StatusCode::corrupt};
  if (std::int64_t{outline.width} * outline.height > max_image_pixels) return {StatusCode::corrupt};
  m_first_data = outline.first_data;
  return {png_chunks_are_intact(m_encoded, png_signature_bytes, m_first_data) ? StatusCode::ok : StatusCode::corrupt};
}

Status PngDecoder::read_header() {
  if (setjmp(m_jump) != 0) return fail();
  m_png_info = png_create_info_struct(m_png);
  if (m_png_info == nullptr) return {StatusCode::io, ENOMEM};
  png_set_read_fn(m_png, this, on_read);
  png_set_user_limits(m_png, max_image_side, max_image_side);
  png_set_chunk_malloc_max(m_png, most_chunk_bytes);
  png_set_keep_unknown_chunks(m_png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  // Checksums are ours to look at, so that each chunk is added up once and also the one in whose middle the rectangle ends.
  png_set_crc_action(m_png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
  png_read_info(m_png, m_png_info);
  const bool interlaced = png_get_interlace_type(m_png, m_png_info) != PNG_INTERLACE_NONE;
  m_info = {static_cast<int>(png_get_image_width(m_png, m_png_info)), static_cast<int>(png_get_image_height(m_png, m_png_info)),
            png_get_channels(m_png, m_png_info), interlaced, ImageFormat::png};
  const std::uint64_t stored_bytes = std::uint64_t{png_get_rowbytes(m_png, m_png_info)} * static_cast<std::uint64_t>(m_info.height);
  return {stored_bytes / max_stored_per_byte > m_encoded.size() ? StatusCode::corrupt : StatusCode::ok};
}

void PngDecoder::take_palette() {
  png_colorp entries = nullptr;
  int count = 0;
  std::array<PngRowConverter::Color, PNG_MAX_PALETTE_LENGTH> colors;
  if (png_get_PLTE(m_png, m_png_info, &entries, &count) == 0) count = 0;
  for (int entry = 0; entry < count; ++entry) {
    colors[static_cast<std::size_t>(entry)] = {entries[entry].red, entries[entry].green, entries[entry].blue, 255};
  }
  m_converter.prepare({png_get_color_type(m_png, m_png_info), png_get_bit_depth(m_png, m_png_info)},
                      std::span(colors).first(static_cast<std::size_t>(count)));
}

Status PngDecoder::begin(const PixelRectangle& rectangle, int) {
  if (setjmp(m_jump) != 0) return fail();
  if (m_info.progressive) png_set_interlace_handling(m_png);
  png_start_read_image(m_png);
  take_palette();
  m_rectangle = rectangle;
  m_stored_stride = png_get_rowbytes(m_png, m_png_info);
  const std::size_t rows_stored = m_info.progressive ? static_cast<std::size_t>(rectangle.height) : 1;
  const std::size_t strip = PixelRows::bytes_per_pixel * static_cast<std::size_t>(rectangle.width) * strip_rows + PixelRows::padding;
  if (!m_stored.reserve(m_stored_stride * rows_stored) || !m_strip.reserve(strip)) {
    m_status = {StatusCode::io, ENOMEM};
    return fail();
  }
  m_rows_left = rectangle.height;
  return m_info.progressive ? unpack_interlaced() : skip_rows(rectangle.top);
}

Status PngDecoder::skip_rows(int count) {
  if (setjmp(m_jump) != 0) return fail();
  for (int row = 0; row < count; ++row) png_read_row(m_png, nullptr, nullptr);
  return {};
}

Status PngDecoder::unpack_interlaced() {
  if (setjmp(m_jump) != 0) return fail();
  const int end = m_rectangle.top + m_rectangle.height;
  for (int pass = 0; pass < interlace_passes; ++pass) {
    const int rows = pass == interlace_passes - 1 ? end : m_info.height;
    for (int row = 0; row < rows; ++row) {
      const bool kept = row >= m_rectangle.top && row < end;
      png_bytep place = kept ? m_stored.data() + m_stored_stride * static_cast<std::size_t>(row - m_rectangle.top) : nullptr;
      png_read_row(m_png, place, nullptr);
    }
  }
  return {};
}

Status PngDecoder::next_rows(PixelRows& rows) {
  const std::size_t stride = PixelRows::bytes_per_pixel * static_cast<std::size_t>(m_rectangle.width);
  rows = {m_strip.data(), stride, 0};
  if (m_rows_left == 0) return {};
  if (setjmp(m_jump) != 0) return fail();
  const int wanted = std::min(strip_rows, m_rows_left);
  for (int row = 0; row < wanted; ++row) {
    const std::uint8_t* stored = m_stored.data();
    if (m_info.progressive) {
      stored += m_stored_stride * static_cast<std::size_t>(m_rectangle.height - m_rows_left + row);
    } else {
      png_read_row(m_png, m_stored.data(), nullptr);
    }
    m_converter.convert(stored, m_rectangle.left, m_rectangle.width, m_strip.data() + stride * static_cast<std::size_t>(row));
  }
  rows.count = wanted;
  m_rows_left -= wanted;
  return m_rows_left > 0 ? Status{} : finish();
}

Status PngDecoder::finish() {
  close();
  return {png_chunks_are_intact(m_encoded, m_first_data, m_position) ? StatusCode::ok : StatusCode::corrupt};
}

namespace {

constexpr std::size_t before_data = 8;  ///< of a chunk: length and name
constexpr std::size_t around_data = 12;
constexpr std::size_t header_data = 13;
constexpr std::size_t checksum_begins = 4;  ///< with the name
constexpr std::size_t checksum_bytes = 4;

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int at = 0; at < 4; ++at) value = value << 8 | std::to_integer<std::uint32_t>(bytes[at]);
  return value;
}

/// Requires the chunk's length and name to lie in the file.
struct Chunk {
  explicit Chunk(const std::byte* at) : length(big_endian(at)), name(reinterpret_cast<const char*>(at) + 4, 4) {}
  std::size_t length;
  std::string_view name;
  [[nodiscard]] std::size_t whole() const { return length + around_data; }
};

}  // namespace

bool read_png_outline(std::span<const std::byte> encoded, PngOutline& outline) {
  outline = {};
  bool has_header = false;
  for (std::size_t at = png_signature_bytes; at + around_data <= encoded.size();) {
    const Chunk chunk(encoded.data() + at);
    if (chunk.length > encoded.size() - at - around_data) return false;
    if (!has_header) {
      if (chunk.name != "IHDR" || chunk.length != header_data) return false;
      has_header = true;
      outline.width = big_endian(encoded.data() + at + before_data);
      outline.height = big_endian(encoded.data() + at + before_data + 4);
    }
    if (chunk.name == "IDAT" && outline.first_data == 0) outline.first_data = at;
    if (chunk.name == "IEND") return outline.first_data != 0;
    at += chunk.whole();
  }
  return false;
}

bool png_chunks_are_intact(std::span<const std::byte> encoded, std::size_t first, std::size_t position) {
  for (std::size_t at = first; at < position;) {
    const std::size_t end = at + Chunk(encoded.data() + at).whole();
    const auto* checked = reinterpret_cast<const Bytef*>(encoded.data() + at + checksum_begins);
    if (crc32_z(0, checked, end - at - checksum_begins - checksum_bytes) != big_endian(encoded.data() + end - checksum_bytes)) return false;
    at = end;
  }
  return true;
}

template <int pixel_bytes, int red, int green, int blue>
void PngRowConverter::convert_values(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  stored += std::ptrdiff_t{left} * pixel_bytes;
  for (int pixel = 0; pixel < width; ++pixel, stored += pixel_bytes, target += bytes_per_pixel) {
    const Color color{stored[red], stored[green], stored[blue], 255};
    std::memcpy(target, color.data(), bytes_per_pixel);
  }
}

void PngRowConverter::convert_rgba(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  std::memcpy(target, stored + static_cast<std::size_t>(left) * bytes_per_pixel, static_cast<std::size_t>(width) * bytes_per_pixel);
}

void PngRowConverter::look_up_bytes(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  for (int pixel = 0; pixel < width; ++pixel, target += bytes_per_pixel) std::memcpy(target, m_colors[stored[left + pixel]].data(), bytes_per_pixel);
}

void PngRowConverter::look_up_bits(const std::uint8_t* stored, int left, int width, std::uint8_t* target) const {
  const unsigned mask = (1U << m_bits) - 1;
  for (int pixel = left; pixel < left + width; ++pixel, target += bytes_per_pixel) {
    const int bit = pixel * m_bits;
    const unsigned value = (static_cast<unsigned>(stored[bit / 8]) >> (8 - m_bits - bit % 8)) & mask;
    std::memcpy(target, m_colors[value].data(), bytes_per_pixel);
  }
}

PngRowConverter::Convert PngRowConverter::choose(const PngPixels& pixels) {
  const bool wide = pixels.bit_depth == 16;
  switch (pixels.color_type) {
    case PNG_COLOR_TYPE_RGB:
      return wide ? &PngRowConverter::convert_values<6, 0, 2, 4> : &PngRowConverter::convert_values<3, 0, 1, 2>;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return wide ? &PngRowConverter::convert_values<8, 0, 2, 4> : &PngRowConverter::convert_rgba;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return wide ? &PngRowConverter::convert_values<4, 0, 0, 0> : &PngRowConverter::convert_values<2, 0, 0, 0>;
    default:
      if (wide) return &PngRowConverter::convert_values<2, 0, 0, 0>;
      return pixels.bit_depth == 8 ? &PngRowConverter::look_up_bytes : &PngRowConverter::look_up_bits;
  }
}

void PngRowConverter::prepare(const PngPixels& pixels, std::span<const Color> palette) {
  m_convert = choose(pixels);
  m_bits = pixels.bit_depth;
  if (pixels.color_type == PNG_COLOR_TYPE_PALETTE) {
    const auto end = std::copy(palette.begin(), palette.end(), m_colors.begin());
    std::fill(end, m_colors.end(), Color{});
  } else if (pixels.color_type == PNG_COLOR_TYPE_GRAY && pixels.bit_depth <= 8) {
    const unsigned white = (1U << m_bits) - 1;
    for (unsigned value = 0; value <= white; ++value) {
      const auto grey = static_cast<std::uint8_t>(value * 255 / white);
      m_colors[value] = {grey, grey, grey, 255};
    }
  }
}

}  // namespace dsanalyze
