#include "png_chunks.hpp"

#include <cstring>
#include <string_view>

#include <zlib.h>

namespace dsanalyze {
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

}  // namespace dsanalyze
