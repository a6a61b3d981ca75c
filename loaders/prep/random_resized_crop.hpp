#pragma once

#include <cstdint>

#include "core/batch.hpp"
#include "core/workload.hpp"
#include "image_decoder.hpp"
#include "resize.hpp"

namespace dsanalyze {

/// What the dice gave one sample: the part of the image that is used, and whether it is mirrored.
struct Augmentation {
  PixelRectangle crop;
  Mirror mirror = Mirror::none;
};

/// A pure function of its arguments. The crop is that of torchvision's RandomResizedCrop.get_params: up to ten draws of area and log-uniform ratio,
/// then the largest crop in the middle that keeps the ratio. Requires width, height >= 1.
Augmentation draw_augmentation(const ImagePrep& prep, std::uint64_t seed, std::uint64_t generation, SampleId sample, int width, int height);

}  // namespace dsanalyze
