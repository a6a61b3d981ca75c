// The program's kernels. They are found by name; cuda_driver.cpp says with which arguments they are called.

#include "core/gpu_crop.hpp"

// Every block is busy for `nanoseconds` of the GPU's clock: it adds to each 16 bytes of its part of `memory` again and again. `words` counts 16 bytes.
extern "C" __global__ void dsanalyze_occupy(unsigned long long nanoseconds, uint4* memory, unsigned long long words) {
  unsigned long long begun = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
  const unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long at = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  while (true) {
    for (int turn = 0; turn < 8 && words > 0; ++turn, at += stride) {
      uint4& word = memory[at % words];
      word.x += 1;
    }
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - begun >= nanoseconds) return;
  }
}

// A tile of a sample's pixels for each block of 32 x 8 threads: rows are narrowed to the tile's columns into shared memory, then summed up. Blocks: columns of
// tiles, rows of tiles, samples.
extern "C" __global__ void dsanalyze_crop(const dsanalyze::GpuCrop* crops, dsanalyze::GpuCropOutput output) {
  using namespace dsanalyze;
  __shared__ std::int16_t x_weights[gpu_crop_tile_columns][gpu_crop_taps + 1];  // one more: columns of a warp lie in different banks
  __shared__ std::int16_t y_weights[gpu_crop_tile_rows][gpu_crop_taps];
  __shared__ InputRange x_taps[gpu_crop_tile_columns];
  __shared__ InputRange y_taps[gpu_crop_tile_rows];
  __shared__ std::uint8_t narrowed[3][gpu_crop_rows][gpu_crop_tile_columns];
  const GpuCrop& crop = crops[blockIdx.z];
  const int lane = threadIdx.x;
  const int line = threadIdx.y;
  const int column = blockIdx.x * gpu_crop_tile_columns + lane;
  const int row = blockIdx.y * gpu_crop_tile_rows + line;
  if (line == 0 && column < output.size)
    x_taps[lane] = gpu_crop_inputs(crop.x, output.size, crop.mirrored != 0 ? output.size - 1 - column : column, x_weights[lane]);
  if (line == 1 && lane < gpu_crop_tile_rows && blockIdx.y * gpu_crop_tile_rows + lane < output.size)
    y_taps[lane] = gpu_crop_inputs(crop.y, output.size, blockIdx.y * gpu_crop_tile_rows + lane, y_weights[lane]);
  __syncthreads();
  const int rows = min(gpu_crop_tile_rows, output.size - static_cast<int>(blockIdx.y) * gpu_crop_tile_rows);
  const int first = y_taps[0].first;
  const int needed = min(y_taps[rows - 1].first + y_taps[rows - 1].count - first, gpu_crop_rows);
  if (column < output.size) {
    const std::uint8_t* pixels = reinterpret_cast<const std::uint8_t*>(crop.pixels) + 3 * static_cast<std::size_t>(x_taps[lane].first);
    for (int at = line; at < needed; at += gpu_crop_tile_rows)
      for (int channel = 0; channel < 3; ++channel)
        narrowed[channel][at][lane] = gpu_crop_sum(pixels + static_cast<std::size_t>(first + at) * crop.pitch + channel, 3, x_taps[lane].count, x_weights[lane]);
  }
  __syncthreads();
  if (column >= output.size || row >= output.size) return;
  for (int channel = 0; channel < 3; ++channel) {
    const std::uint8_t value =
        gpu_crop_sum(&narrowed[channel][y_taps[line].first - first][lane], gpu_crop_tile_columns, y_taps[line].count, y_weights[line]);
    gpu_crop_put(output, reinterpret_cast<void*>(crop.sample), row, column, channel, value);
  }
}
