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

}  // namespace dsanalyze
