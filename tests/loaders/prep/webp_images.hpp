#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dsanalyze::test {

enum class WebpCoding : std::uint8_t { lossy, lossless };
enum class WebpAlpha : std::uint8_t { none, some };
enum class WebpFilter : std::uint8_t { simple, strong };

struct WebpKind {
  int width = 160;
  int height = 120;
  WebpCoding coding = WebpCoding::lossy;
  WebpAlpha alpha = WebpAlpha::none;
  WebpFilter filter = WebpFilter::strong;
  float quality = 80;
};

/// Lossy and lossless, with alpha and without, both loop filters, of the given size.
std::vector<WebpKind> all_webp_kinds(int width, int height);

/// The test picture (jpeg_images.hpp) as a WebP file.
std::vector<std::byte> encode_webp(const WebpKind& kind);

/// All pixels as red, green, blue and a byte without meaning, by the library's plain full decode. Empty if it refuses.
std::vector<std::uint8_t> decode_whole_webp(std::span<const std::byte> file);

/// The same lossy file without alpha, with other dimensions (14 bits each) in its header.
std::vector<std::byte> with_webp_dimensions(std::vector<std::byte> file, int width, int height);

/// A file that says that it is an animation; its one frame is empty.
std::vector<std::byte> animated_webp();

}  // namespace dsanalyze::test
