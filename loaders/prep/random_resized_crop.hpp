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

/// How a crop is had: the rectangle to decode at 1/denominator, and what of it the resize covers.
struct ScaledCrop {
  int denominator = 1;
  PixelRectangle pixels;
  AxisSpan horizontal;
  AxisSpan vertical;
};

/// A crop that becomes output_size x output_size pixels. Decodes at 1/2, 1/4 or 1/8, as far as the decoder can (`largest_denominator`) and as long as
/// the crop is then still at least twice the output in both directions, so that the resize's filter, not the decoder's, decides what the output looks
/// like.
ScaledCrop scale_crop(const PixelRectangle& crop, int image_width, int image_height, int output_size, int largest_denominator);
/// The same at a given denominator.
ScaledCrop scale_crop_by(const PixelRectangle& crop, int image_width, int image_height, int denominator);

/// What becomes of an image whose middle is used.
struct CentreCrop {
  int size = 0;    ///< pixels of the output's sides
  int resize = 0;  ///< what the image's shorter side becomes before, at least `size`
};
/// torchvision's Resize(resize) and CenterCrop(size) in one: the shorter side becomes `resize`, and both are cut to `size` in the middle. Unlike a
/// crop that is drawn, the resize sees what lies beside the crop. The denominator is chosen as in scale_crop(), for the whole image.
ScaledCrop scale_centre(int image_width, int image_height, CentreCrop crop, int largest_denominator);

}  // namespace dsanalyze
