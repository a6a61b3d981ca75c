#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dsanalyze::test {

enum class Inks : std::uint8_t { grey, rgb, ycc, cmyk, ycck };
enum class Scans : std::uint8_t { baseline, progressive };
enum class Coding : std::uint8_t { huffman, arithmetic };
enum class AdobeMarker : std::uint8_t { written, none };  ///< of CMYK; YCCK cannot be told without it

struct ImageKind {
  int width = 160;
  int height = 120;
  Inks inks = Inks::ycc;
  Scans scans = Scans::baseline;
  int horizontal_sampling = 2;  ///< of the luma, or the first component
  int vertical_sampling = 2;
  int quality = 90;
  int restart_interval = 0;  ///< in MCUs
  Coding coding = Coding::huffman;
  AdobeMarker marker = AdobeMarker::written;
};

/// Colour of one pixel of the test picture: waves and edges, reproducible.
std::uint8_t picture(int x, int y, int channel);

/// The test picture as a JPEG file. CMYK and YCCK are inverted, as Adobe writes them.
std::vector<std::byte> encode_picture(const ImageKind& kind);

/// The same file with other dimensions in its header.
std::vector<std::byte> with_dimensions(std::vector<std::byte> file, int width, int height);

}  // namespace dsanalyze::test
