#include <doctest/doctest.h>

#include "loaders/prep/random_resized_crop.hpp"

using namespace dsanalyze;

namespace {

bool same(const Augmentation& a, const Augmentation& b) {
  return a.mirror == b.mirror && a.crop.left == b.crop.left && a.crop.top == b.crop.top && a.crop.width == b.crop.width &&
         a.crop.height == b.crop.height;
}

}  // namespace

TEST_CASE("the augmentation is a pure function of seed, generation and sample, and each of them matters") {
  const ImagePrep prep;
  const Augmentation first = draw_augmentation(prep, 1, 2, 3, 500, 375);
  CHECK(same(first, draw_augmentation(prep, 1, 2, 3, 500, 375)));
  CHECK_FALSE(same(first, draw_augmentation(prep, 9, 2, 3, 500, 375)));
  CHECK_FALSE(same(first, draw_augmentation(prep, 1, 9, 3, 500, 375)));
  CHECK_FALSE(same(first, draw_augmentation(prep, 1, 2, 9, 500, 375)));
}

TEST_CASE("crops lie in the image and keep to the ranges of area and ratio") {
  const ImagePrep prep;
  double area = 0;
  int mirrored = 0;
  constexpr int draws = 20000;
  for (SampleId sample = 0; sample < draws; ++sample) {
    const Augmentation drawn = draw_augmentation(prep, 0, 0, sample, 500, 375);
    const PixelRectangle& crop = drawn.crop;
    REQUIRE(crop.left >= 0);
    REQUIRE(crop.top >= 0);
    REQUIRE(crop.left + crop.width <= 500);
    REQUIRE(crop.top + crop.height <= 375);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    REQUIRE(ratio > 0.74);
    REQUIRE(ratio < 1.35);
    const double share = static_cast<double>(crop.width) * crop.height / (500.0 * 375);
    REQUIRE(share > 0.079);
    area += share / draws;
    mirrored += drawn.mirror == Mirror::horizontal ? 1 : 0;
  }
  // A draw fits when its area is at most 0.75 x its ratio of the whole: the mean over log-uniform ratios of what fits is 0.432.
  CHECK(area == doctest::Approx(0.432).epsilon(0.02));
  CHECK(mirrored == doctest::Approx(draws / 2.0).epsilon(0.03));
}

TEST_CASE("an image that no draw fits gives the largest crop in its middle that keeps the ratio") {
  const ImagePrep prep;
  const PixelRectangle wide = draw_augmentation(prep, 0, 0, 0, 10000, 30).crop;
  CHECK(wide.width == 40);
  CHECK(wide.height == 30);
  CHECK(wide.left == 4980);
  const PixelRectangle tall = draw_augmentation(prep, 0, 0, 0, 30, 10000).crop;
  CHECK(tall.width == 30);
  CHECK(tall.height == 40);
  CHECK(tall.top == 4980);
}

TEST_CASE("images of one pixel and of one row have crops") {
  for (SampleId sample = 0; sample < 200; ++sample) {
    const PixelRectangle dot = draw_augmentation(ImagePrep{}, 0, 0, sample, 1, 1).crop;
    CHECK(dot.width == 1);
    CHECK(dot.height == 1);
    const PixelRectangle line = draw_augmentation(ImagePrep{}, 0, 0, sample, 900, 1).crop;
    CHECK(line.height == 1);
    CHECK(line.width >= 1);
    CHECK(line.left + line.width <= 900);
  }
}

TEST_CASE("flip probabilities of 0 and 1 are kept exactly") {
  ImagePrep prep;
  for (SampleId sample = 0; sample < 500; ++sample) {
    prep.flip_probability = 0;
    REQUIRE(draw_augmentation(prep, 0, 0, sample, 64, 64).mirror == Mirror::none);
    prep.flip_probability = 1;
    REQUIRE(draw_augmentation(prep, 0, 0, sample, 64, 64).mirror == Mirror::horizontal);
  }
}
