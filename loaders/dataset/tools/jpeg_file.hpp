#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// 8-bit RGB, rows one after another without a gap.
struct RgbImage {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] const std::uint8_t* row(int y) const { return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3; }
  [[nodiscard]] std::uint8_t* row(int y) { return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3; }
};

/// Decodes a photograph, at half size when its shorter side keeps at least `least_short_side` pixels then. Throws Error with the cause alone.
RgbImage decode_photograph(std::string_view encoded, int least_short_side);

/// Encodes baseline 4:2:0 with the standard tables, into memory of its own. Threads: one an encoder.
class JpegEncoder {
 public:
  JpegEncoder();
  JpegEncoder(const JpegEncoder&) = delete;
  JpegEncoder& operator=(const JpegEncoder&) = delete;
  JpegEncoder(JpegEncoder&&) = delete;
  JpegEncoder& operator=(JpegEncoder&&) = delete;
  ~JpegEncoder();
  /// Valid until the next call. `comment` goes into a COM segment. Throws Error with the cause alone.
  std::span<const std::byte> encode(const RgbImage& image, int quality, const std::string& comment);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
