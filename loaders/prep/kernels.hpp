#pragma once

// Plain structures and functions only: this header is also read by code that is compiled for wider vectors than the rest of the program, and an
// inline function of the standard library compiled there could take the place of the common one.

#include <cstddef>
#include <cstdint>

namespace dsanalyze {

/// Of decoded and resized pixels: red, green, blue and one without meaning.
constexpr std::ptrdiff_t bytes_per_pixel = 4;

/// What one axis of a resize adds up: output i is the sum of `taps` inputs from first[i] on, each with its weight of weights[i * taps ...].
struct AxisTaps {
  static constexpr int weight_bits = 14;  ///< weights of one output add up to 1 << weight_bits
  const std::int32_t* first = nullptr;
  const std::int16_t* weights = nullptr;
  int taps = 0;     ///< even
  int outputs = 0;  ///< a multiple of four; those past the image weigh nothing
};

/// The two passes over pixels of four bytes. Fast kernels give the same bytes as the plain ones.
struct ResizeKernels {
  /// Each of `rows` source rows, `source_stride` apart, in taps.outputs pixels. 64 bytes past the last source row may be read.
  void (*horizontal)(const std::uint8_t* source, std::size_t source_stride, int rows, const AxisTaps& taps, std::uint8_t* target,
                     std::size_t target_stride);
  /// Output rows [first_output, first_output + count) of the vertical axis, `stride` bytes each (a multiple of 32) in source and target.
  void (*vertical)(const std::uint8_t* source, std::size_t stride, int first_output, int count, const AxisTaps& taps, std::uint8_t* target);
};

extern const ResizeKernels plain_resize_kernels;
extern const ResizeKernels avx2_resize_kernels;  ///< only on x86-64, and only to be called where the processor has AVX2

/// Rows of a sample as they come from the resize, and where they go: red, green, blue and one more byte a pixel.
struct SampleRows {
  const std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;
  int first_row = 0;
  int rows = 0;
};

/// The sample's place and its scale: value x scale + offset in single precision, product rounded before the sum, on every processor.
struct SampleTarget {
  void* sample = nullptr;
  int width = 0;
  int height = 0;
  float scale[3] = {1, 1, 1};
  float offset[3] = {0, 0, 0};
};

/// Writes rows of a sample. Fast kernels give the same bytes as the plain ones; they may go past the caches, and have done so when they return.
struct NormaliseKernels {
  using Write = void (*)(const SampleRows& rows, const SampleTarget& target);
  Write float_planes;
  Write float_pixels;
  Write byte_planes;
  Write byte_pixels;
};

extern const NormaliseKernels plain_normalise_kernels;
extern const NormaliseKernels avx2_normalise_kernels;  ///< only on x86-64, and only to be called where the processor has AVX2

}  // namespace dsanalyze
