#include "png_images.hpp"

#include <cstring>
#include <stdexcept>

#include <zlib.h>

#include "jpeg_images.hpp"

namespace dsanalyze::test {
namespace {

[[noreturn]] void on_error(png_structp, png_const_charp message) { throw std::runtime_error(message); }

int channels_of(int color_type) {
  switch (color_type) {
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    default:
      return 1;
  }
}

std::vector<png_byte> stored_row(const PngKind& kind, int y) {
  const int channels = channels_of(kind.color_type);
  const auto bits = static_cast<std::size_t>(kind.width) * static_cast<std::size_t>(channels * kind.bit_depth);
  std::vector<png_byte> row((bits + 7) / 8);
  for (int value = 0; value < kind.width * channels; ++value) {
    const unsigned full = picture(value / channels, y, value % channels);
    if (kind.bit_depth == 16) {
      row[static_cast<std::size_t>(value) * 2] = static_cast<png_byte>(full);
      row[static_cast<std::size_t>(value) * 2 + 1] = static_cast<png_byte>(full * 7);
    } else {
      const int bit = value * kind.bit_depth;
      const unsigned part = full >> (8 - kind.bit_depth) << (8 - kind.bit_depth - bit % 8);
      row[static_cast<std::size_t>(bit / 8)] = static_cast<png_byte>(row[static_cast<std::size_t>(bit / 8)] | part);
    }
  }
  return row;
}

void put(std::byte* at, std::uint32_t value) {
  for (int byte = 0; byte < 4; ++byte) at[byte] = static_cast<std::byte>(value >> (24 - 8 * byte));
}

void write_palette(png_structp png, png_infop info, const PngKind& kind) {
  std::vector<png_color> palette(std::size_t{1} << kind.bit_depth);
  std::vector<png_byte> alpha(palette.size());
  for (std::size_t entry = 0; entry < palette.size(); ++entry) {
    const auto value = static_cast<int>(entry);
    palette[entry] = {picture(value, 3, 0), picture(value, 5, 1), picture(value, 7, 2)};
    alpha[entry] = static_cast<png_byte>(entry * 3);
  }
  png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  if (kind.transparency == Transparency::listed) png_set_tRNS(png, info, alpha.data(), static_cast<int>(alpha.size()), nullptr);
}

}  // namespace

std::vector<PngKind> all_png_kinds(int width, int height) {
  std::vector<PngKind> kinds;
  for (const Interlacing interlacing : {Interlacing::none, Interlacing::adam7}) {
    const auto add = [&](int color_type, std::initializer_list<int> depths) {
      for (const int depth : depths)
        kinds.push_back({.width = width, .height = height, .color_type = color_type, .bit_depth = depth, .interlacing = interlacing});
    };
    add(PNG_COLOR_TYPE_GRAY, {1, 2, 4, 8, 16});
    add(PNG_COLOR_TYPE_PALETTE, {1, 2, 4, 8});
    for (const int color_type : {PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB_ALPHA}) add(color_type, {8, 16});
  }
  return kinds;
}

std::vector<std::byte> encode_png(const PngKind& kind) {
  std::vector<std::byte> file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp to, png_bytep bytes, std::size_t count) {
    auto* whole = static_cast<std::vector<std::byte>*>(png_get_io_ptr(to));
    const auto* begin = reinterpret_cast<const std::byte*>(bytes);
    whole->insert(whole->end(), begin, begin + count);
  };
  png_set_write_fn(png, &file, write, nullptr);
  png_set_compression_buffer_size(png, kind.chunking == Chunking::one ? 1 << 24 : 200);
  png_set_IHDR(png, info, static_cast<png_uint_32>(kind.width), static_cast<png_uint_32>(kind.height), kind.bit_depth, kind.color_type,
               kind.interlacing == Interlacing::adam7 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (kind.color_type == PNG_COLOR_TYPE_PALETTE) write_palette(png, info, kind);
  if (kind.color_type != PNG_COLOR_TYPE_PALETTE && kind.transparency == Transparency::listed) {
    const auto value = static_cast<png_uint_16>(kind.bit_depth < 8 ? 1 : 100);
    png_color_16 color{0, value, value, value, value};
    png_set_tRNS(png, info, nullptr, 0, &color);
  }
  png_set_gAMA(png, info, 1.0 / 1.4);
  char key[] = "Comment";
  char words[] = "waves and edges";
  png_text text{};
  text.compression = PNG_TEXT_COMPRESSION_zTXt;
  text.key = key;
  text.text = words;
  text.text_length = sizeof(words) - 1;
  png_set_text(png, info, &text, 1);
  png_write_info(png, info);
  std::vector<std::vector<png_byte>> rows;
  std::vector<png_bytep> pointers;
  rows.reserve(static_cast<std::size_t>(kind.height));
  pointers.reserve(static_cast<std::size_t>(kind.height));
  for (int y = 0; y < kind.height; ++y) rows.push_back(stored_row(kind, y));
  for (std::vector<png_byte>& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::vector<std::uint8_t> decode_whole_png(std::span<const std::byte> file) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto read = [](png_structp from, png_bytep target, std::size_t bytes) {
    auto* rest = static_cast<std::span<const std::byte>*>(png_get_io_ptr(from));
    if (bytes > rest->size()) png_error(from, "too short");
    std::memcpy(target, rest->data(), bytes);
    *rest = rest->subspan(bytes);
  };
  png_set_read_fn(png, &file, read);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  const png_uint_32 height = png_get_image_height(png, info);
  std::vector<std::uint8_t> pixels(row_bytes * height);
  std::vector<png_bytep> rows;
  for (png_uint_32 y = 0; y < height; ++y) rows.push_back(pixels.data() + row_bytes * y);
  png_read_image(png, rows.data());
  png_destroy_read_struct(&png, &info, nullptr);
  return pixels;
}

std::vector<std::byte> with_png_dimensions(std::vector<std::byte> file, std::uint32_t width, std::uint32_t height) {
  constexpr std::size_t name = 12;
  put(file.data() + name + 4, width);
  put(file.data() + name + 8, height);
  put(file.data() + name + 17, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data() + name), 17)));
  return file;
}

std::size_t find_png_chunk(std::span<const std::byte> file, std::string_view name) {
  std::size_t at = 8;
  while (at + 12 <= file.size() && std::memcmp(file.data() + at + 4, name.data(), 4) != 0) {
    std::size_t length = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) length = length * 256 + std::to_integer<std::size_t>(file[at + byte]);
    at += length + 12;
  }
  return at + 12 <= file.size() ? at : file.size();
}

}  // namespace dsanalyze::test
