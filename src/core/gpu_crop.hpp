#pragma once

// What a GPU does with decoded pixels: crop, antialiased resize, flip and normalise, in the arithmetic of the CPU's prep (loaders/prep/resize.hpp),
// so that both give the same bytes. Plain functions and structures: this header is compiled by nvcc, too.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define DSANALYZE_GPU_TOO __host__ __device__
#else
#define DSANALYZE_GPU_TOO
#endif

namespace dsanalyze {

/// One axis of a crop: a length of inputs from `start` on, which need not be whole, of `available` ones.
struct GpuCropAxis {
  double start = 0;
  double length = 0;
  std::int32_t available = 0;
};

/// One sample: where its pixels are (red, green and blue of a byte each, in rows of `pitch` bytes, from the crop's first pixel on) and where it goes.
struct GpuCrop {
  std::uint64_t pixels = 0;
  std::uint64_t sample = 0;
  std::uint32_t pitch = 0;
  std::uint32_t mirrored = 0;
  GpuCropAxis x;
  GpuCropAxis y;
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
constexpr int gpu_crop_weight_bits = 14;  ///< weights of one output add up to 1 << this

/// Inputs [first, first + count) of an output.
struct GpuCropTaps {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

namespace gpu_crop_detail {
DSANALYZE_GPU_TOO constexpr int nearest(double value) {
  value += 0.5;
  return static_cast<int>(value);
}
DSANALYZE_GPU_TOO constexpr int larger(int a, int b) { return a > b ? a : b; }
DSANALYZE_GPU_TOO constexpr int smaller(int a, int b) { return a < b ? a : b; }
}  // namespace gpu_crop_detail

/// Which inputs an output has; `weights`, of gpu_crop_taps, gets theirs.
DSANALYZE_GPU_TOO inline GpuCropTaps gpu_crop_taps_of(const GpuCropAxis& axis, int outputs, int output, std::int16_t* weights) {
  using namespace gpu_crop_detail;
  const double scale = axis.length / outputs;
  const double support = scale > 1 ? scale : 1;
  const double centre = axis.start + (output + 0.5) * scale;
  const int low = larger(nearest(centre - support), 0);
  const int high = smaller(larger(nearest(centre + support), low + 1), axis.available);
  double total = 0;
  for (int input = low; input < high; ++input) {
    const double away = input + 0.5 - centre;
    const double weight = support - (away < 0 ? -away : away);
    total += weight > 0 ? weight : 0;
  }
  const double share = (1 << gpu_crop_weight_bits) / total;
  double running = 0;
  int given = 0;
  for (int input = low; input < high && input - low < gpu_crop_taps; ++input) {
    const double away = input + 0.5 - centre;
    const double weight = support - (away < 0 ? -away : away);
    running += (weight > 0 ? weight : 0) * share;
    const int upto = nearest(running);
    weights[input - low] = static_cast<std::int16_t>(upto - given);
    given = upto;
  }
  return {low, smaller(high - low, gpu_crop_taps)};
}

/// Whether the kernel has room for it.
DSANALYZE_GPU_TOO constexpr bool gpu_crop_fits(const GpuCrop& crop, int size) {
  const double most = (gpu_crop_rows - 4.0) / (gpu_crop_tile_rows + 2);
  return crop.x.length <= most * size && crop.y.length <= most * size;
}

/// One colour of the output of some inputs that lie `apart` bytes from one another.
DSANALYZE_GPU_TOO inline std::uint8_t gpu_crop_sum(const std::uint8_t* inputs, std::size_t apart, int count, const std::int16_t* weights) {
  int sum = 1 << (gpu_crop_weight_bits - 1);
  for (int tap = 0; tap < count; ++tap) sum += inputs[apart * static_cast<std::size_t>(tap)] * weights[tap];
  return static_cast<std::uint8_t>(sum >> gpu_crop_weight_bits);
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
