#pragma once
// The kernel dsanalyze_crop without a GPU: its own arithmetic, in its tiles.

#include <algorithm>
#include <array>
#include <vector>

#include "core/gpu_crop.hpp"

namespace dsanalyze {

inline void crop_on_cpu(const GpuCrop& crop, const GpuCropOutput& output) {
  const auto* const pixels = reinterpret_cast<const std::uint8_t*>(crop.pixels);
  const int size = output.size;
  using Weights = std::array<std::int16_t, gpu_crop_taps>;
  std::vector<Weights> x_weights(static_cast<std::size_t>(size));
  std::vector<InputRange> x_taps(static_cast<std::size_t>(size));
  for (int column = 0; column < size; ++column) {
    const auto at = static_cast<std::size_t>(column);
    x_taps[at] = gpu_crop_inputs(crop.x, size, crop.mirrored != 0 ? size - 1 - column : column, x_weights[at].data());
  }
  for (int begin = 0; begin < size; begin += gpu_crop_tile_rows) {
    const int rows = std::min(gpu_crop_tile_rows, size - begin);
    std::array<Weights, gpu_crop_tile_rows> y_weights;
    std::array<InputRange, gpu_crop_tile_rows> y_taps;
    for (int row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      y_taps[at] = gpu_crop_inputs(crop.y, size, begin + row, y_weights[at].data());
    }
    const InputRange last = y_taps[static_cast<std::size_t>(rows - 1)];
    const int first = y_taps[0].first;
    const int needed = std::min(last.first + last.count - first, gpu_crop_rows);
    std::vector<std::uint8_t> narrowed(static_cast<std::size_t>(needed));
    for (int column = 0; column < size; ++column) {
      const auto at = static_cast<std::size_t>(column);
      for (int channel = 0; channel < 3; ++channel) {
        for (int row = 0; row < needed; ++row)
          narrowed[static_cast<std::size_t>(row)] =
              gpu_crop_sum(pixels + static_cast<std::size_t>(first + row) * crop.pitch + 3 * x_taps[at].first + channel, 3, x_taps[at].count,
                           x_weights[at].data());
        for (int row = 0; row < rows; ++row) {
          const InputRange taps = y_taps[static_cast<std::size_t>(row)];
          gpu_crop_put(output, reinterpret_cast<void*>(crop.sample), begin + row, column, channel,
                       gpu_crop_sum(narrowed.data() + (taps.first - first), 1, taps.count, y_weights[static_cast<std::size_t>(row)].data()));
        }
      }
    }
  }
}

}  // namespace dsanalyze
