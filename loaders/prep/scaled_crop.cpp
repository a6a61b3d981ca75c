#include "scaled_crop.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

constexpr int least_reduction_left = 2;

struct ScaledAxis {
  int first = 0;
  AxisSpan span;
};

ScaledAxis scale_axis(int start, int length, int image_size, int denominator) {
  const int first = start / denominator;
  const int end = std::min(scaled_size(start + length, denominator), scaled_size(image_size, denominator));
  const double scaled_start = static_cast<double>(start) / denominator - first;
  return {first, {scaled_start, static_cast<double>(length) / denominator, end - first}};
}

/// The middle output_size of the image_size pixels, once they are resized to resized_size.
ScaledAxis centre_axis(int image_size, std::int64_t resized_size, int output_size, int denominator) {
  const double scale = static_cast<double>(image_size) / static_cast<double>(resized_size) / denominator;
  const double skipped = std::nearbyint(static_cast<double>(resized_size - output_size) / 2);
  const double start = skipped * scale;
  const double length = output_size * scale;
  const double filter_reach = std::max(scale, 1.0) + 1;
  const int first = static_cast<int>(std::max(std::floor(start - filter_reach), 0.0));
  const int end = static_cast<int>(std::min<double>(std::ceil(start + length + filter_reach), scaled_size(image_size, denominator)));
  return {first, {start - first, length, end - first}};
}

int choose_denominator(int shorter, int output_size, int largest_denominator) {
  int denominator = 1;
  while (denominator < largest_denominator && shorter >= 2 * denominator * least_reduction_left * output_size) denominator *= 2;
  return denominator;
}

ScaledCrop join(const ScaledAxis& x, const ScaledAxis& y, int denominator) {
  return {denominator, {x.first, y.first, x.span.available, y.span.available}, x.span, y.span};
}

}  // namespace

ScaledCrop scale_crop(const PixelRectangle& crop, int image_width, int image_height, int output_size, int largest_denominator) {
  const int denominator = choose_denominator(std::min(crop.width, crop.height), output_size, largest_denominator);
  return scale_crop_by(crop, image_width, image_height, denominator);
}

ScaledCrop scale_crop_by(const PixelRectangle& crop, int image_width, int image_height, int denominator) {
  return join(scale_axis(crop.left, crop.width, image_width, denominator), scale_axis(crop.top, crop.height, image_height, denominator), denominator);
}

ScaledCrop scale_centre(int image_width, int image_height, int output_size, int largest_denominator) {
  const int shorter = std::min(image_width, image_height);
  const int denominator = choose_denominator(shorter, output_size, largest_denominator);
  const auto axis = [&](int image_size) {
    return centre_axis(image_size, std::int64_t{output_size} * image_size / shorter, output_size, denominator);
  };
  return join(axis(image_width), axis(image_height), denominator);
}

}  // namespace dsanalyze
