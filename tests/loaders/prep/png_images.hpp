#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <png.h>

namespace dsanalyze::test {

enum class Interlacing : std::uint8_t { none, adam7 };
enum class Transparency : std::uint8_t { none, listed };  ///< listed: a tRNS chunk
enum class Chunking : std::uint8_t { many, one };         ///< of the image data

struct PngKind {
  int width = 160;
  int height = 120;
  int color_type = PNG_COLOR_TYPE_RGB;
  int bit_depth = 8;
  Interlacing interlacing = Interlacing::none;
  Transparency transparency = Transparency::none;
  Chunking chunking = Chunking::many;
};

/// All fifteen combinations of colour type and bits that PNG has, of the given size, without and with interlacing.
std::vector<PngKind> all_png_kinds(int width, int height);

/// The test picture (jpeg_images.hpp) as a PNG file, with a gamma and a text chunk.
std::vector<std::byte> encode_png(const PngKind& kind);

/// All pixels as red, green, blue and a byte without meaning, by the library's own transformations.
std::vector<std::uint8_t> decode_whole_png(std::span<const std::byte> file);

/// The same file with other dimensions in its header, and the checksum that goes with them.
std::vector<std::byte> with_png_dimensions(std::vector<std::byte> file, std::uint32_t width, std::uint32_t height);

/// Where the chunk of this name begins (its length); the file's size if there is none.
std::size_t find_png_chunk(std::span<const std::byte> file, std::string_view name);

}  // namespace dsanalyze::test
