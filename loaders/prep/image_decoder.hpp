#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/error.hpp"
#include "kernels.hpp"
#include "prep.hpp"

namespace dsanalyze {

/// A rectangle of an image, in pixels.
struct PixelRectangle {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

/// Some decoded rows, four bytes a pixel: red, green, blue and one without meaning. `padding` more bytes may be read behind the last row.
struct PixelRows {
  static constexpr std::size_t padding = 64;
  static constexpr std::size_t bytes_per_pixel = dsanalyze::bytes_per_pixel;
  const std::uint8_t* first = nullptr;
  std::size_t stride = 0;
  int count = 0;
};

/// Images with more pixels, or more on a side, are refused as corrupt in every format, before memory is taken for them. (Pillow warns from 179
/// million pixels on and refuses from 358 million on.)
constexpr std::int64_t max_image_pixels = 256'000'000;
constexpr int max_image_side = 65'535;

/// Decoders that unpack rows one by one give out so many at a time, at most.
constexpr int strip_rows = 16;
/// Upsampled colour at the edge of what is decoded is made without its outer neighbour. So decoders whose library does that take so many
/// more pixels at each side, and those that are used are never at the edge, unless the image's.
constexpr int upsampling_margin = 2;

/// Size of an image, or a part of it, that is decoded at 1/denominator, rounded up.
constexpr int scaled_size(int size, int denominator) { return (size + denominator - 1) / denominator; }

/// Decodes a rectangle of one image after another. A file that ends before its image does is corrupt wherever the rectangle lies.
/// Threads: one. Allocation: the library's own, and buffers when they grow. Errors: corrupt, unsupported (a kind that is not handled), io (no
/// memory). After an error, or in mid-image, open() starts anew.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  /// Reads the header. `encoded` must stay until the last row was read.
  virtual Status open(std::span<const std::byte> encoded) = 0;
  /// Of the image opened last.
  [[nodiscard]] virtual const ImageInfo& info() const = 0;
  /// The image is available at 1/1, 1/2, 1/4 ... of its size, down to one over this.
  [[nodiscard]] virtual int largest_denominator() const = 0;
  /// Begins to decode `rectangle` of the image at 1/denominator of its size, in pixels of that smaller image. Once after open().
  virtual Status begin(const PixelRectangle& rectangle, int denominator) = 0;
  /// The next rows of the rectangle, at least one while any is left, else none. They stay until the next call.
  virtual Status next_rows(PixelRows& rows) = 0;
};

/// Memory for pixels that grows to what the largest image needed. What a huge image took is given back by trim(), so that one image in a dataset
/// does not set the size of every worker.
class PixelBuffer {
 public:
  static constexpr std::size_t most_kept_bytes = std::size_t{16} << 20;

  /// False if there is no memory; what the buffer held is lost either way.
  [[nodiscard]] bool reserve(std::size_t bytes) {
    if (bytes <= m_bytes) return true;
    m_memory.reset();
    m_memory.reset(new (std::nothrow) std::uint8_t[bytes]);
    m_bytes = m_memory ? bytes : 0;
    return m_memory != nullptr;
  }
  void trim() {
    if (m_bytes <= most_kept_bytes) return;
    m_memory.reset();
    m_bytes = 0;
  }
  [[nodiscard]] std::uint8_t* data() const { return m_memory.get(); }

 private:
  std::unique_ptr<std::uint8_t[]> m_memory;
  std::size_t m_bytes = 0;
};

}  // namespace dsanalyze
