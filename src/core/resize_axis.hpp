#pragma once

// One axis of an antialiased resize, for cores and GPUs alike: which inputs an output has, and with which weights. Plain functions and structures:
// this header is compiled by nvcc, too.

#include <cstdint>

#ifdef __CUDACC__
#define DSANALYZE_GPU_TOO __host__ __device__
#else
#define DSANALYZE_GPU_TOO
#endif

namespace dsanalyze {

/// Which part of `available` inputs one axis of a resize covers: a length of inputs from `start` on, which need not be whole.
struct AxisSpan {
  double start = 0;
  double length = 0;
  std::int32_t available = 0;
};

/// Inputs [first, first + count) of an output.
struct InputRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

constexpr int resize_weight_bits = 14;  ///< weights of one output add up to 1 << this

namespace resize_axis_detail {
/// For positive values; negative ones may come out as zero.
DSANALYZE_GPU_TOO constexpr int nearest(double value) {
  value += 0.5;
  return static_cast<int>(value);
}
DSANALYZE_GPU_TOO constexpr int larger(int a, int b) { return a > b ? a : b; }
DSANALYZE_GPU_TOO constexpr int smaller(int a, int b) { return a < b ? a : b; }
/// Half of what the filter covers, in inputs: as wide as an output where the image shrinks, and as an input where it grows.
DSANALYZE_GPU_TOO constexpr double support(const AxisSpan& span, int outputs) {
  const double scale = span.length / outputs;
  return scale > 1 ? scale : 1;
}
DSANALYZE_GPU_TOO constexpr double centre(const AxisSpan& span, int outputs, int output) {
  const double scale = span.length / outputs;
  return span.start + (output + 0.5) * scale;
}
/// Of a triangle filter.
DSANALYZE_GPU_TOO constexpr double weight(double support, double centre, int input) {
  const double away = input + 0.5 - centre;
  const double left = support - (away < 0 ? -away : away);
  return left > 0 ? left : 0;
}
}  // namespace resize_axis_detail

/// The inputs of an output, none outside of the available ones.
DSANALYZE_GPU_TOO constexpr InputRange resize_inputs(const AxisSpan& span, int outputs, int output) {
  using namespace resize_axis_detail;
  const double reach = support(span, outputs);
  const double middle = centre(span, outputs, output);
  const int low = larger(nearest(middle - reach), 0);
  const int high = smaller(larger(nearest(middle + reach), low + 1), span.available);
  return {low, high - low};
}

/// Writes the weights of those inputs, range.count of them.
DSANALYZE_GPU_TOO inline void write_resize_weights(const AxisSpan& span, int outputs, int output, InputRange range, std::int16_t* weights) {
  using namespace resize_axis_detail;
  const double reach = support(span, outputs);
  const double middle = centre(span, outputs, output);
  double total = 0;
  for (int i = 0; i < range.count; ++i) total += weight(reach, middle, range.first + i);
  const double share = (1 << resize_weight_bits) / total;
  // Rounding the running sum, not each weight, makes the whole exact.
  double running = 0;
  int given = 0;
  for (int i = 0; i < range.count; ++i) {
    running += weight(reach, middle, range.first + i) * share;
    const int upto = nearest(running);
    weights[i] = static_cast<std::int16_t>(upto - given);
    given = upto;
  }
}

}  // namespace dsanalyze
