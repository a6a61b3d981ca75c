#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"
#include "photograph_files.hpp"

namespace dsanalyze {

/// What the samples of a preset look like.
struct MakePreset {
  std::string_view name;
  int usual_long_side = 0;  ///< most samples are long x short, some of them upright
  int usual_short_side = 0;
  double usual_share = 0;
  double upright_share = 0.25;
  int least_side = 0;  ///< the others have sides in [least, most]
  int most_side = 0;
  double mean_bytes = 0;         ///< of the sizes that are aimed at, log-normal
  double bytes_deviation = 0.4;  ///< as a share of the mean
  Bytes expected_bytes = 0;      ///< mean of what comes out with the Debian photographs
};
const std::vector<MakePreset>& all_make_presets();
/// Throws UsageError with the nearest name.
const MakePreset& find_make_preset(const std::string& name);

/// One sample, before its pixels: a pure function of (preset, seed, number) and the photographs' sizes.
struct SampleRecipe {
  std::uint32_t photograph = 0;
  int width = 0;
  int height = 0;
  double crop_left = 0;  ///< pixels of the photograph
  double crop_top = 0;
  double crop_width = 0;
  double crop_height = 0;
  double target_bytes = 0;
};
SampleRecipe make_recipe(const MakePreset& preset, std::uint64_t seed, std::uint64_t number, const std::vector<RgbImage>& photographs);

/// Cuts the crop out and scales it bilinearly to the recipe's size into `out`.
void cut_out(const RgbImage& photograph, const SampleRecipe& recipe, RgbImage& out);

/// Encodes near the recipe's size: at the best quality, and once more at a lower one where that is too large by far. As pure as its arguments.
std::span<const std::byte> encode_near(JpegEncoder& encoder, const RgbImage& image, const SampleRecipe& recipe, const std::string& comment);

/// "n00000012/00000600.jpg": fifty samples in a row share a class, up to 1,000 classes.
std::string sample_path(std::uint64_t number);

}  // namespace dsanalyze
