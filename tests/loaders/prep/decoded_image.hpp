#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "loaders/prep/image_decoder.hpp"

namespace dsanalyze::test {

/// What a decoder made of a rectangle of an image, four bytes a pixel.
struct Decoded {
  Status status;
  int width = 0;
  std::vector<std::uint8_t> pixels;

  [[nodiscard]] int at(int x, int y, int channel) const {
    return pixels[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 4 +
                  static_cast<std::size_t>(channel)];
  }
};

inline Decoded decode(ImageDecoder& decoder, std::span<const std::byte> file, const PixelRectangle& rectangle, int denominator = 1) {
  Decoded decoded{decoder.open(file), rectangle.width, {}};
  if (decoded.status.ok()) decoded.status = decoder.begin(rectangle, denominator);
  while (decoded.status.ok()) {
    PixelRows rows;
    decoded.status = decoder.next_rows(rows);
    if (!decoded.status.ok() || rows.count == 0) break;
    for (int row = 0; row < rows.count; ++row) {
      const std::uint8_t* first = rows.first + rows.stride * static_cast<std::size_t>(row);
      decoded.pixels.insert(decoded.pixels.end(), first, first + std::ptrdiff_t{4} * rectangle.width);
    }
  }
  return decoded;
}

inline Decoded decode_whole(ImageDecoder& decoder, std::span<const std::byte> file) {
  const Status status = decoder.open(file);
  if (!status.ok()) return {status, 0, {}};
  return decode(decoder, file, {0, 0, decoder.info().width, decoder.info().height});
}

inline PixelRectangle draw_rectangle(RandomStream& random, int width, int height) {
  const auto below = [&](int end) { return static_cast<int>(random.below(static_cast<std::uint64_t>(end))); };
  PixelRectangle rectangle;
  rectangle.width = 1 + below(width);
  rectangle.height = 1 + below(height);
  rectangle.left = below(width - rectangle.width + 1);
  rectangle.top = below(height - rectangle.height + 1);
  return rectangle;
}

struct Difference {
  double mean = 0;
  int most = 0;
};

inline Difference difference(const Decoded& part, const Decoded& whole, const PixelRectangle& rectangle) {
  Difference result;
  for (int y = 0; y < rectangle.height; ++y) {
    for (int x = 0; x < rectangle.width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        const int off = std::abs(part.at(x, y, channel) - whole.at(rectangle.left + x, rectangle.top + y, channel));
        result.most = std::max(result.most, off);
        result.mean += off;
      }
    }
  }
  result.mean /= 3.0 * rectangle.width * rectangle.height;
  return result;
}

/// Flips one to eight random bytes.
inline std::vector<std::byte> spoilt(std::vector<std::byte> file, RandomStream& random) {
  for (std::uint64_t flips = 1 + random.below(8); flips > 0; --flips)
    file[random.below(file.size())] ^= static_cast<std::byte>(1 + random.below(255));
  return file;
}

/// The first `kept` bytes, then as many random ones as the file has.
inline std::vector<std::byte> garbage_after(std::vector<std::byte> file, std::size_t kept, RandomStream& random) {
  for (std::size_t at = kept; at < file.size(); ++at) file[at] = static_cast<std::byte>(random.below(256));
  return file;
}

inline bool is_refusal(Status status) { return status.code == StatusCode::corrupt || status.code == StatusCode::unsupported; }

}  // namespace dsanalyze::test
