#pragma once

// Plain structures and functions only, for the reason given in resize_kernels.hpp.

#include <cstddef>
#include <cstdint>

#include "pixel_bytes.hpp"

namespace dsanalyze {

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
