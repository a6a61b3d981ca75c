#pragma once

// What a GPU does with decoded pixels: crop, antialiased resize, flip and normalise, in the arithmetic of the CPU's prep (loaders/prep/resize.hpp),
// so that both give the same bytes. Plain functions and structures: this header is compiled by nvcc, too.

#include <cstddef>
#include <cstdint>

#include "core/resize_axis.hpp"

namespace dsanalyze {

/// One sample: where its pixels are (red, green and blue of a byte each, in rows of `pitch` bytes, from the crop's first pixel on) and where it goes.
struct GpuCrop {
  std::uint64_t pixels = 0;
  std::uint64_t sample = 0;
  std::uint32_t pitch = 0;
  std::uint32_t mirrored = 0;
  AxisSpan x;
  AxisSpan y;
};

/// Samples of `size` x `size` pixels: value x scale + offset of each channel in single precision where they are `floats`, else bytes as they are.
struct GpuCropOutput {
  std::int32_t size = 0;
  std::int32_t planes = 0;  ///< 1: [channel, row, column]; 0: [row, column, channel]
  std::int32_t floats = 0;
  float scale[3] = {1, 1, 1};
  float offset[3] = {0, 0, 0};
};

/// The most inputs for one output, and the rows of pixels that a tile of outputs may need: what a multiprocessor has memory for.
constexpr int gpu_crop_taps = 64;
constexpr int gpu_crop_rows = 256;
constexpr int gpu_crop_tile_rows = 8;
constexpr int gpu_crop_tile_columns = 32;

/// Which inputs an output has; `weights`, of gpu_crop_taps, gets theirs.
DSANALYZE_GPU_TOO inline InputRange gpu_crop_inputs(const AxisSpan& span, int outputs, int output, std::int16_t* weights) {
  InputRange range = resize_inputs(span, outputs, output);
  range.count = resize_axis_detail::smaller(range.count, gpu_crop_taps);
  write_resize_weights(span, outputs, output, range, weights);
  return range;
}

/// Whether the kernel has room for it.
DSANALYZE_GPU_TOO constexpr bool gpu_crop_fits(const GpuCrop& crop, int size) {
  const double most = (gpu_crop_rows - 4.0) / (gpu_crop_tile_rows + 2);
  return crop.x.length <= most * size && crop.y.length <= most * size;
}

/// One colour of the output of some inputs that lie `apart` bytes from one another.
DSANALYZE_GPU_TOO inline std::uint8_t gpu_crop_sum(const std::uint8_t* inputs, std::size_t apart, int count, const std::int16_t* weights) {
  int sum = 1 << (resize_weight_bits - 1);
  for (int tap = 0; tap < count; ++tap) sum += inputs[apart * static_cast<std::size_t>(tap)] * weights[tap];
  return static_cast<std::uint8_t>(sum >> resize_weight_bits);
}

/// Puts one colour of one pixel into its sample.
DSANALYZE_GPU_TOO inline void gpu_crop_put(const GpuCropOutput& output, void* sample, int row, int column, int channel, std::uint8_t value) {
  const int at = output.planes != 0 ? (channel * output.size + row) * output.size + column : (row * output.size + column) * 3 + channel;
  if (output.floats != 0)
    static_cast<float*>(sample)[at] = static_cast<float>(value) * output.scale[channel] + output.offset[channel];
  else
    static_cast<std::uint8_t*>(sample)[at] = value;
}

}  // namespace dsanalyze
