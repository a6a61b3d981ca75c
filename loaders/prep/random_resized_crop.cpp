#include "random_resized_crop.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

/// To the nearest, halves to even, as Python's round().
int round_half_even(double value) { return static_cast<int>(std::nearbyint(value)); }

PixelRectangle middle_crop(const ImagePrep& prep, int width, int height) {
  PixelRectangle crop{0, 0, width, height};
  const double image_ratio = static_cast<double>(width) / height;
  if (image_ratio < prep.ratio[0]) crop.height = std::clamp(round_half_even(width / prep.ratio[0]), 1, height);
  if (image_ratio > prep.ratio[1]) crop.width = std::clamp(round_half_even(height * prep.ratio[1]), 1, width);
  crop.left = (width - crop.width) / 2;
  crop.top = (height - crop.height) / 2;
  return crop;
}

/// Uniform in [0, last].
int draw_start(RandomStream& random, int last) { return static_cast<int>(random.below(static_cast<std::uint64_t>(last) + 1)); }

PixelRectangle draw_crop(const ImagePrep& prep, RandomStream& random, int width, int height) {
  constexpr int attempts = 10;
  const double area = static_cast<double>(width) * height;
  const double log_low = std::log(prep.ratio[0]);
  const double log_high = std::log(prep.ratio[1]);
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const double target_area = area * random.uniform(prep.scale[0], prep.scale[1]);
    const double ratio = std::exp(random.uniform(log_low, log_high));
    const int crop_width = round_half_even(std::sqrt(target_area * ratio));
    const int crop_height = round_half_even(std::sqrt(target_area / ratio));
    if (crop_width < 1 || crop_width > width || crop_height < 1 || crop_height > height) continue;
    const int top = draw_start(random, height - crop_height);
    const int left = draw_start(random, width - crop_width);
    return {left, top, crop_width, crop_height};
  }
  return middle_crop(prep, width, height);
}

}  // namespace

Augmentation draw_augmentation(const ImagePrep& prep, std::uint64_t seed, std::uint64_t generation, SampleId sample, int width, int height) {
  RandomStream random(mix(seed, generation, sample));
  Augmentation augmentation;
  augmentation.mirror = random.uniform() < prep.flip_probability ? Mirror::horizontal : Mirror::none;
  augmentation.crop = draw_crop(prep, random, width, height);
  return augmentation;
}

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

ScaledCrop scale_centre(int image_width, int image_height, CentreCrop crop, int largest_denominator) {
  const int shorter = std::min(image_width, image_height);
  const int denominator = choose_denominator(shorter, crop.resize, largest_denominator);
  const auto axis = [&](int image_size) { return centre_axis(image_size, std::int64_t{crop.resize} * image_size / shorter, crop.size, denominator); };
  return join(axis(image_width), axis(image_height), denominator);
}

}  // namespace dsanalyze
