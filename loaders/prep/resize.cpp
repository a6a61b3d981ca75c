#include "resize.hpp"

#include <algorithm>
#include <cmath>

#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr int rounding = 1 << (AxisTaps::weight_bits - 1);

std::uint8_t scaled_sum(int sum) { return static_cast<std::uint8_t>(sum >> AxisTaps::weight_bits); }

void plain_horizontal(const std::uint8_t* source, std::size_t source_stride, int rows, const AxisTaps& taps, std::uint8_t* target,
                      std::size_t target_stride) {
  for (int row = 0; row < rows; ++row, source += source_stride, target += target_stride) {
    const std::int16_t* weights = taps.weights;
    for (int output = 0; output < taps.outputs; ++output, weights += taps.taps) {
      const std::uint8_t* pixel = source + std::size_t{bytes_per_pixel} * static_cast<std::size_t>(taps.first[output]);
      int sums[bytes_per_pixel] = {rounding, rounding, rounding, rounding};
      for (int tap = 0; tap < taps.taps; ++tap, pixel += bytes_per_pixel) {
        for (int channel = 0; channel < bytes_per_pixel; ++channel) sums[channel] += pixel[channel] * weights[tap];
      }
      for (int channel = 0; channel < bytes_per_pixel; ++channel) target[output * bytes_per_pixel + channel] = scaled_sum(sums[channel]);
    }
  }
}

void plain_vertical(const std::uint8_t* source, std::size_t stride, int first_output, int count, const AxisTaps& taps, std::uint8_t* target) {
  for (int output = first_output; output < first_output + count; ++output, target += stride) {
    const std::uint8_t* rows = source + stride * static_cast<std::size_t>(taps.first[output]);
    const std::int16_t* weights = taps.weights + std::ptrdiff_t{output} * taps.taps;
    for (std::size_t at = 0; at < stride; ++at) {
      int sum = rounding;
      for (int tap = 0; tap < taps.taps; ++tap) sum += rows[stride * static_cast<std::size_t>(tap) + at] * weights[tap];
      target[at] = scaled_sum(sum);
    }
  }
}

}  // namespace

const ResizeKernels plain_resize_kernels{plain_horizontal, plain_vertical};

const ResizeKernels& best_resize_kernels() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return avx2_resize_kernels;
#endif
  return plain_resize_kernels;
}

void AxisWeights::compute(const AxisSpan& span, int outputs, Mirror mirror) {
  const double scale = span.length / outputs;
  const double support = std::max(scale, 1.0);
  const int most = std::min(static_cast<int>(std::ceil(2 * support)) + 1, span.available);
  const int taps = static_cast<int>(round_up(static_cast<std::size_t>(most), 2));
  const auto padded_outputs = static_cast<int>(round_up(static_cast<std::size_t>(outputs), 4));
  m_first.assign(static_cast<std::size_t>(padded_outputs), 0);
  m_weights.assign(static_cast<std::size_t>(padded_outputs) * static_cast<std::size_t>(taps), 0);

  static_assert(AxisTaps::weight_bits == resize_weight_bits);
  for (int output = 0; output < outputs; ++output) {
    const InputRange range = resize_inputs(span, outputs, output);
    // The taps may not reach past the inputs, not even with weight nothing.
    const int first = std::max(std::min(range.first, span.available - taps), 0);
    const auto place = static_cast<std::size_t>(mirror == Mirror::horizontal ? outputs - 1 - output : output);
    m_first[place] = first;
    std::int16_t* weights = m_weights.data() + place * static_cast<std::size_t>(taps);
    write_resize_weights(span, outputs, output, range, weights + (range.first - first));
  }
  m_taps = {m_first.data(), m_weights.data(), taps, padded_outputs};
}

Resizer::Resizer(int size, const ResizeKernels& kernels)
    : m_kernels(kernels),
      m_size(size),
      m_row_bytes(round_up(static_cast<std::size_t>(size) * bytes_per_pixel, 32)),
      m_result(m_row_bytes * max_rows) {}

void Resizer::begin(const AxisSpan& horizontal, const AxisSpan& vertical, Mirror mirror) {
  m_horizontal.compute(horizontal, m_size, mirror);
  m_vertical.compute(vertical, m_size, Mirror::none);
  const int rows = std::max(vertical.available, m_vertical.taps().taps);
  const std::size_t needed = m_row_bytes * static_cast<std::size_t>(rows);
  if (needed > m_narrowed_bytes) {
    m_narrowed = std::make_unique_for_overwrite<std::uint8_t[]>(needed);
    m_narrowed_bytes = needed;
  }
  m_rows_added = 0;
}

void Resizer::add_rows(const PixelRows& rows) {
  m_kernels.horizontal(rows.first, rows.stride, rows.count, m_horizontal.taps(),
                       m_narrowed.get() + m_row_bytes * static_cast<std::size_t>(m_rows_added), m_row_bytes);
  m_rows_added += rows.count;
}

const std::uint8_t* Resizer::result_rows(int first, int count) {
  m_kernels.vertical(m_narrowed.get(), m_row_bytes, first, count, m_vertical.taps(), m_result.data());
  return m_result.data();
}

}  // namespace dsanalyze
