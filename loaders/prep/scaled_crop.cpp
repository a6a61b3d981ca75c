#include "scaled_crop.hpp"

#include <algorithm>

namespace dsanalyze {
namespace {

constexpr int largest_denominator = 8;
constexpr int least_reduction_left = 2;

struct ScaledAxis {
  int first = 0;
  AxisSpan span;
};

ScaledAxis scale_axis(int start, int length, int image_size, int denominator) {
  const int first = start / denominator;
  const int end = std::min(JpegDecoder::scaled_size(start + length, denominator), JpegDecoder::scaled_size(image_size, denominator));
  const double scaled_start = static_cast<double>(start) / denominator - first;
  return {first, {scaled_start, static_cast<double>(length) / denominator, end - first}};
}

}  // namespace

ScaledCrop scale_crop(const PixelRectangle& crop, int image_width, int image_height, int output_size) {
  const int shorter = std::min(crop.width, crop.height);
  int denominator = 1;
  while (denominator < largest_denominator && shorter >= 2 * denominator * least_reduction_left * output_size) denominator *= 2;
  return scale_crop_by(crop, image_width, image_height, denominator);
}

ScaledCrop scale_crop_by(const PixelRectangle& crop, int image_width, int image_height, int denominator) {
  const ScaledAxis x = scale_axis(crop.left, crop.width, image_width, denominator);
  const ScaledAxis y = scale_axis(crop.top, crop.height, image_height, denominator);
  return {denominator, {x.first, y.first, x.span.available, y.span.available}, x.span, y.span};
}

}  // namespace dsanalyze
