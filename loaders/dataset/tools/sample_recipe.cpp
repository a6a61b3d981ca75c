#include "sample_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t samples_per_class = 50;
constexpr std::uint64_t most_classes = 1000;
constexpr double closest_crop = 1.2;  // pixels of the photograph for one of the sample: near its own resolution, where it has detail
constexpr double widest_crop = 2.0;
constexpr double least_crop_of_small = 0.85;  // of what fits
constexpr int crops_to_choose_from = 3;
constexpr int best_quality = 98;  // what most of these smooth photographs need
constexpr int least_quality = 60;
constexpr double tolerance = 0.2;               // a first try this near its target is taken as it is
constexpr double log_bytes_per_quality = 0.12;  // measured on the Debian photographs between 94 and 98
constexpr int fraction_bits = 8;
constexpr int fixed_one = 1 << fraction_bits;

int random_side(RandomStream& random, const MakePreset& preset) {
  return preset.least_side + static_cast<int>(random.below(static_cast<std::uint64_t>(preset.most_side - preset.least_side) + 1));
}

/// Where an output pixel's two source pixels lie and how much of the second it takes.
struct Tap {
  int first = 0;
  int second = 0;
  int weight = 0;
};

std::vector<Tap> make_taps(double begin, double length, int outputs, int limit) {
  std::vector<Tap> taps(static_cast<std::size_t>(outputs));
  const double step = length / outputs;
  for (int place = 0; place < outputs; ++place) {
    const double centre = std::clamp(begin + (place + 0.5) * step - 0.5, 0.0, static_cast<double>(limit - 1));
    const int first = static_cast<int>(centre);
    taps[static_cast<std::size_t>(place)] = {first, std::min(first + 1, limit - 1), static_cast<int>((centre - first) * fixed_one)};
  }
  return taps;
}

SampleRecipe crop_somewhere(SampleRecipe recipe, RandomStream& random, const std::vector<RgbImage>& photographs) {
  recipe.photograph = static_cast<std::uint32_t>(random.below(photographs.size()));
  const RgbImage& photograph = photographs[recipe.photograph];
  const double largest = std::min(photograph.width / static_cast<double>(recipe.width), photograph.height / static_cast<double>(recipe.height));
  const double most = std::min(largest, widest_crop);
  // A photograph about as small as the sample is scaled up a little, so that its crops differ.
  const double scale = random.uniform(std::min(closest_crop, most * least_crop_of_small), most);
  recipe.crop_width = recipe.width * scale;
  recipe.crop_height = recipe.height * scale;
  recipe.crop_left = random.uniform(0, std::max(photograph.width - recipe.crop_width, 0.0));
  recipe.crop_top = random.uniform(0, std::max(photograph.height - recipe.crop_height, 0.0));
  return recipe;
}

/// How much neighbouring pixels differ, on a grid of points in the crop.
int detail_of(const RgbImage& photograph, const SampleRecipe& recipe) {
  constexpr int points = 24;
  int sum = 0;
  for (int y = 0; y < points; ++y) {
    const int row = std::min(static_cast<int>(recipe.crop_top + recipe.crop_height * y / points), photograph.height - 2);
    for (int x = 0; x < points; ++x) {
      const int column = std::min(static_cast<int>(recipe.crop_left + recipe.crop_width * x / points), photograph.width - 2);
      const std::uint8_t* pixel = photograph.row(row) + static_cast<std::ptrdiff_t>(column) * 3;
      const std::uint8_t* below = photograph.row(row + 1) + static_cast<std::ptrdiff_t>(column) * 3;
      sum += std::abs(pixel[1] - pixel[4]) + std::abs(pixel[1] - below[1]);
    }
  }
  return sum;
}

}  // namespace

SampleRecipe make_recipe(const MakePreset& preset, std::uint64_t seed, std::uint64_t number, const std::vector<RgbImage>& photographs) {
  RandomStream random(mix(seed, number, 0x6d616b65));
  SampleRecipe recipe;
  recipe.width = preset.usual_long_side;
  recipe.height = preset.usual_short_side;
  if (random.uniform() >= preset.usual_share) {
    recipe.width = random_side(random, preset);
    recipe.height = random_side(random, preset);
  } else if (random.uniform() < preset.upright_share) {
    std::swap(recipe.width, recipe.height);
  }
  // Of a few crops the one with most in it: photographers aim at something, a blind crop finds the sky.
  SampleRecipe best;
  int best_detail = -1;
  for (int candidate = 0; candidate < crops_to_choose_from; ++candidate) {
    const SampleRecipe crop = crop_somewhere(recipe, random, photographs);
    const int detail = detail_of(photographs[crop.photograph], crop);
    if (detail <= best_detail) continue;
    best = crop;
    best_detail = detail;
  }
  recipe = best;
  const double variance = std::log1p(preset.bytes_deviation * preset.bytes_deviation);
  const double pixels = static_cast<double>(recipe.width) * recipe.height / (static_cast<double>(preset.usual_long_side) * preset.usual_short_side);
  recipe.target_bytes = pixels * std::exp(std::log(preset.mean_bytes) - variance / 2 + std::sqrt(variance) * random.normal());
  return recipe;
}

void cut_out(const RgbImage& photograph, const SampleRecipe& recipe, RgbImage& out) {
  out.width = recipe.width;
  out.height = recipe.height;
  out.pixels.resize(static_cast<std::size_t>(out.width) * static_cast<std::size_t>(out.height) * 3);
  const std::vector<Tap> columns = make_taps(recipe.crop_left, recipe.crop_width, out.width, photograph.width);
  const std::vector<Tap> rows = make_taps(recipe.crop_top, recipe.crop_height, out.height, photograph.height);
  const int from = columns.front().first * 3;
  const int to = (columns.back().second + 1) * 3;
  std::vector<std::uint16_t> blended(static_cast<std::size_t>(to - from));
  for (int y = 0; y < out.height; ++y) {
    const Tap row = rows[static_cast<std::size_t>(y)];
    const std::uint8_t* upper = photograph.row(row.first) + from;
    const std::uint8_t* lower = photograph.row(row.second) + from;
    for (std::size_t x = 0; x < blended.size(); ++x) {
      blended[x] = static_cast<std::uint16_t>(upper[x] * (fixed_one - row.weight) + lower[x] * row.weight);
    }
    std::uint8_t* target = out.row(y);
    for (const Tap& column : columns) {
      const std::uint16_t* left = blended.data() + (column.first * 3 - from);
      const std::uint16_t* right = blended.data() + (column.second * 3 - from);
      for (int channel = 0; channel < 3; ++channel) {
        const int sum = left[channel] * (fixed_one - column.weight) + right[channel] * column.weight;
        *target++ = static_cast<std::uint8_t>((sum + (1 << (2 * fraction_bits - 1))) >> (2 * fraction_bits));
      }
    }
  }
}

std::span<const std::byte> encode_near(JpegEncoder& encoder, const RgbImage& image, const SampleRecipe& recipe, const std::string& comment) {
  const auto encoded = encoder.encode(image, best_quality, comment);
  const double too_large = std::log(static_cast<double>(encoded.size()) / recipe.target_bytes);
  if (too_large <= std::log1p(tolerance)) return encoded;
  const int lowered = best_quality - static_cast<int>(std::lround(too_large / log_bytes_per_quality));
  return encoder.encode(image, std::max(lowered, least_quality), comment);
}

std::string sample_path(std::uint64_t number) { return fmt::format("n{:08}/{:08}.jpg", number / samples_per_class % most_classes, number); }

}  // namespace dsanalyze
