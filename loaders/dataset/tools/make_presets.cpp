#include <algorithm>

#include "base/error.hpp"
#include "base/text/json_reader.hpp"
#include "dataset_make.hpp"
#include "sample_recipe.hpp"

namespace dsanalyze {

const std::vector<MakePreset>& all_make_presets() {
  static const std::vector<MakePreset> presets{
      {.name = "imagenet-1k",
       .usual_long_side = 500,
       .usual_short_side = 375,
       .usual_share = 0.7,
       .upright_share = 0.25,
       .least_side = 300,
       .most_side = 640,
       .mean_bytes = 170e3,
       .bytes_deviation = 0.4,
       .expected_bytes = 120'000},
      {.name = "openimages",
       .usual_long_side = 1024,
       .usual_short_side = 768,
       .usual_share = 0.85,
       .upright_share = 0.25,
       .least_side = 680,
       .most_side = 1024,
       .mean_bytes = 300e3,
       .bytes_deviation = 0.4,
       .expected_bytes = 300'000},
  };
  return presets;
}

const MakePreset& find_make_preset(const std::string& name) {
  const auto& presets = all_make_presets();
  const auto found = std::find_if(presets.begin(), presets.end(), [&](const MakePreset& preset) { return preset.name == name; });
  if (found != presets.end()) return *found;
  std::string message = "there is no preset '" + name + "'";
  if (const auto nearest = nearest_name(name, make_presets())) message += "; did you mean '" + *nearest + "'?";
  message += " Presets:";
  for (const std::string& known : make_presets()) message += " " + known;
  throw UsageError(message);
}

std::vector<std::string> make_presets() {
  std::vector<std::string> names;
  for (const MakePreset& preset : all_make_presets()) names.emplace_back(preset.name);
  return names;
}

}  // namespace dsanalyze
