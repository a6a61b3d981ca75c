#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dsanalyze {

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
