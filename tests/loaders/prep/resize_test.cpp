#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/random.hpp"
#include "jpeg_images.hpp"
#include "loaders/prep/jpeg_decoder.hpp"
#include "loaders/prep/random_resized_crop.hpp"
#include "loaders/prep/resize.hpp"

using namespace dsanalyze;

namespace {

/// An image with the padding that the kernels may read.
struct Image {
  int width;
  int height;
  std::vector<std::uint8_t> bytes;
  [[nodiscard]] PixelRows rows() const { return {bytes.data(), static_cast<std::size_t>(width) * 4, height}; }
  [[nodiscard]] int at(int x, int y, int channel) const {
    return bytes[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 4 +
                 static_cast<std::size_t>(channel)];
  }
};

Image noise(int width, int height, std::uint64_t seed) {
  Image image{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4 + PixelRows::padding)};
  RandomStream random(seed);
  for (auto& byte : image.bytes) byte = static_cast<std::uint8_t>(random.next());
  return image;
}

Image resize(const Image& image, int size, Mirror mirror, const ResizeKernels& kernels) {
  Resizer resizer(size, kernels);
  resizer.begin({0, static_cast<double>(image.width), image.width}, {0, static_cast<double>(image.height), image.height}, mirror);
  resizer.add_rows(image.rows());
  Image result{size, size, {}};
  for (int row = 0; row < size; ++row) {
    const std::uint8_t* bytes = resizer.result_rows(row, 1);
    result.bytes.insert(result.bytes.end(), bytes, bytes + std::ptrdiff_t{size} * 4);
  }
  return result;
}

/// The triangle filter in double precision along one axis, at output `output`, of values that `value` gives.
template <typename Value>
double filtered(int inputs, int outputs, int output, const Value& value) {
  const double scale = static_cast<double>(inputs) / outputs;
  const double support = std::max(scale, 1.0);
  const double center = (output + 0.5) * scale;
  double sum = 0;
  double total = 0;
  for (int input = 0; input < inputs; ++input) {
    const double weight = 1 - std::abs(input + 0.5 - center) / support;
    if (weight <= 0) continue;
    total += weight;
    sum += weight * value(input);
  }
  return sum / total;
}

struct ResizeCase {
  int width;
  int height;
  int size;
};
constexpr ResizeCase resize_cases[] = {{500, 375, 224}, {100, 80, 224}, {224, 224, 224}, {223, 225, 224}, {1, 1, 8},   {2, 3, 5},
                                       {37, 1, 13},     {900, 40, 32},  {300, 411, 97},  {640, 480, 1},   {50, 49, 33}};

}  // namespace

TEST_CASE("a resize is the triangle filter, to the rounding of a byte in each direction") {
  for (const ResizeCase& shape : resize_cases) {
    CAPTURE(shape.width);
    CAPTURE(shape.size);
    const Image image = noise(shape.width, shape.height, 3);
    const Image resized = resize(image, shape.size, Mirror::none, plain_resize_kernels);
    double worst = 0;
    for (int at = 0; at < 40; ++at) {
      const int x = at * 7919 % shape.size;
      const int y = at * 104729 % shape.size;
      const auto column = [&](int row) { return filtered(shape.width, shape.size, x, [&](int input) { return image.at(input, row, at % 3); }); };
      worst = std::max(worst, std::abs(filtered(shape.height, shape.size, y, column) - resized.at(x, y, at % 3)));
    }
    CHECK(worst <= 1.1);
  }
}

TEST_CASE("the fast resize gives the bytes of the plain one") {
  if (&best_resize_kernels() == &plain_resize_kernels) {
    MESSAGE("this processor has no fast resize");
    return;
  }
  for (const ResizeCase& shape : resize_cases) {
    for (const Mirror mirror : {Mirror::none, Mirror::horizontal}) {
      CAPTURE(shape.width);
      CAPTURE(shape.size);
      const Image image = noise(shape.width, shape.height, 5);
      CHECK(resize(image, shape.size, mirror, best_resize_kernels()).bytes == resize(image, shape.size, mirror, plain_resize_kernels).bytes);
    }
  }
}

TEST_CASE("rows may be added and taken in any portions") {
  const Image image = noise(90, 77, 9);
  const Image expected = resize(image, 50, Mirror::none, best_resize_kernels());
  Resizer resizer(50);
  resizer.begin({0, 90, 90}, {0, 77, 77}, Mirror::none);
  for (int row = 0; row < 77;) {
    const int count = std::min(1 + row % 5, 77 - row);
    resizer.add_rows({image.bytes.data() + std::ptrdiff_t{row} * 90 * 4, std::size_t{90} * 4, count});
    row += count;
  }
  const std::uint8_t* rows = resizer.result_rows(32, Resizer::max_rows);
  for (int row = 0; row < Resizer::max_rows; ++row) {
    for (int at = 0; at < 200; ++at) {
      REQUIRE(rows[resizer.row_bytes() * static_cast<std::size_t>(row) + static_cast<std::size_t>(at)] == expected.at(at / 4, 32 + row, at % 4));
    }
  }
}

TEST_CASE("flat colour stays exactly as it is, at every scale") {
  for (const int width : {1, 7, 100, 1234, 60000}) {
    Image image{width, 3, std::vector<std::uint8_t>(static_cast<std::size_t>(width) * 3 * 4 + PixelRows::padding, 201)};
    const Image resized = resize(image, 31, Mirror::none, best_resize_kernels());
    CHECK(std::ranges::all_of(resized.bytes, [](std::uint8_t byte) { return byte == 201; }));
  }
}

TEST_CASE("a mirrored result is the result, mirrored") {
  const Image image = noise(300, 200, 11);
  const Image straight = resize(image, 61, Mirror::none, best_resize_kernels());
  const Image mirrored = resize(image, 61, Mirror::horizontal, best_resize_kernels());
  for (int y = 0; y < 61; ++y) {
    for (int x = 0; x < 61; ++x) REQUIRE(straight.at(x, y, 1) == mirrored.at(60 - x, y, 1));
  }
}

TEST_CASE("a large crop is decoded smaller, as far as twice the output is left") {
  CHECK(scale_crop({0, 0, 895, 2000}, 4000, 3000, 224, 8).denominator == 1);
  CHECK(scale_crop({0, 0, 896, 2000}, 4000, 3000, 224, 8).denominator == 2);
  CHECK(scale_crop({0, 0, 1792, 2000}, 4000, 3000, 224, 8).denominator == 4);
  CHECK(scale_crop({0, 0, 20000, 10000}, 20000, 10000, 224, 8).denominator == 8);
  const ScaledCrop crop = scale_crop_by({101, 33, 1000, 900}, 1101, 933, 4);
  CHECK(crop.pixels.left == 25);
  CHECK(crop.pixels.width == 251);
  CHECK(crop.pixels.top + crop.pixels.height == 234);
  CHECK(crop.horizontal.start == doctest::Approx(0.25));
  CHECK(crop.horizontal.length == doctest::Approx(250));
}

TEST_CASE("decoding smaller changes the result by less than one step of a byte on average") {
  const auto file = test::encode_picture({.width = 2100, .height = 1900});
  const PixelRectangle crop{131, 57, 1900, 1799};
  constexpr int size = 112;
  std::vector<std::vector<std::uint8_t>> results;
  for (const int denominator : {1, 2, 4, 8}) {
    JpegDecoder decoder;
    REQUIRE(decoder.open(file).ok());
    const ScaledCrop scaled = scale_crop_by(crop, 2100, 1900, denominator);
    REQUIRE(decoder.begin(scaled.pixels, denominator).ok());
    Resizer resizer(size);
    resizer.begin(scaled.horizontal, scaled.vertical, Mirror::none);
    for (PixelRows rows;;) {
      REQUIRE(decoder.next_rows(rows).ok());
      if (rows.count == 0) break;
      resizer.add_rows(rows);
    }
    auto& result = results.emplace_back();
    for (int row = 0; row < size; ++row) {
      const std::uint8_t* bytes = resizer.result_rows(row, 1);
      for (int at = 0; at < size * 4; ++at) {
        if (at % 4 != 3) result.push_back(bytes[at]);
      }
    }
    double sum = 0;
    for (std::size_t at = 0; at < result.size(); ++at) sum += std::abs(result[at] - results.front()[at]);
    CAPTURE(denominator);
    CHECK(sum / static_cast<double>(result.size()) < 1);
  }
}
