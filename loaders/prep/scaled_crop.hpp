#pragma once

#include "jpeg_decoder.hpp"
#include "resize.hpp"

namespace dsanalyze {

/// How a crop is had: the rectangle to decode at 1/denominator, and what of it the resize covers.
struct ScaledCrop {
  int denominator = 1;
  PixelRectangle pixels;
  AxisSpan horizontal;
  AxisSpan vertical;
};

/// Decodes at 1/2, 1/4 or 1/8 as long as the crop is then still at least twice the output in both directions, so that the resize's filter, not the
/// decoder's, decides what the output looks like.
ScaledCrop scale_crop(const PixelRectangle& crop, int image_width, int image_height, int output_size);
/// The same at a given denominator.
ScaledCrop scale_crop_by(const PixelRectangle& crop, int image_width, int image_height, int denominator);

}  // namespace dsanalyze
