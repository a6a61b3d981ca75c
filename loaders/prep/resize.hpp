#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/resize_axis.hpp"
#include "image_decoder.hpp"
#include "kernels.hpp"

namespace dsanalyze {

enum class Mirror : std::uint8_t { none, horizontal };

/// Weights of one axis, with a triangle filter that is as wide as an output where the image shrinks, and as an input where it grows (what Pillow
/// calls bilinear, and torchvision antialias=True). No input outside [0, available) is used; weights are rounded such that flat colour stays as it
/// is.
class AxisWeights {
 public:
  /// Requires outputs >= 1 and span.length > 0. Allocates only when it needs more room than ever before.
  void compute(const AxisSpan& span, int outputs, Mirror mirror);
  [[nodiscard]] const AxisTaps& taps() const { return m_taps; }

 private:
  std::vector<std::int32_t> m_first;
  std::vector<std::int16_t> m_weights;
  AxisTaps m_taps;
};

/// The kernels for this processor.
const ResizeKernels& best_resize_kernels();

/// Antialiased bilinear resize of one image at a time to size x size pixels: rows go in as they are decoded, rows come out. Mirroring costs nothing.
/// Threads: one. Allocation: when an image needs more room than any before it.
class Resizer {
 public:
  explicit Resizer(int size, const ResizeKernels& kernels = best_resize_kernels());

  /// Starts an image. `vertical.available` rows will be added.
  void begin(const AxisSpan& horizontal, const AxisSpan& vertical, Mirror mirror);
  /// The next rows of the image. Each has horizontal.available pixels.
  void add_rows(const PixelRows& rows);
  /// Rows [first, first + count) of the result; requires that all rows were added and count <= max_rows. They stay until the next call.
  const std::uint8_t* result_rows(int first, int count);
  [[nodiscard]] std::size_t row_bytes() const { return m_row_bytes; }

  static constexpr int max_rows = 16;

 private:
  const ResizeKernels& m_kernels;
  int m_size;
  std::size_t m_row_bytes;  ///< with padding
  AxisWeights m_horizontal;
  AxisWeights m_vertical;
  std::unique_ptr<std::uint8_t[]> m_narrowed;  ///< all rows after the horizontal pass
  std::size_t m_narrowed_bytes = 0;
  int m_rows_added = 0;
  std::vector<std::uint8_t> m_result;
};

}  // namespace dsanalyze
