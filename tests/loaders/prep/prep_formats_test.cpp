#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "decoded_image.hpp"
#include "jpeg_images.hpp"
#include "loaders/prep/prep.hpp"
#include "loaders/prep/random_resized_crop.hpp"
#include "loaders/prep/resize.hpp"
#include "png_images.hpp"
#include "webp_images.hpp"

using namespace dsanalyze;
using test::encode_picture;
using test::encode_png;
using test::encode_webp;
using test::WebpCoding;

namespace {

constexpr int prepared_size = 40;

ImagePrepOptions byte_options(CropRule crop = CropRule::random_resized) {
  ImagePrepOptions options{.prep = {}, .dtype = DType::uint8, .layout = Layout::nhwc, .seed = 4, .crop = crop};
  options.prep.crop_size = prepared_size;
  return options;
}

std::vector<int> prepare(Prep& prep, std::span<const std::byte> file, SampleId sample) {
  std::vector<std::byte> output(std::size_t{prepared_size} * prepared_size * 3);
  REQUIRE(prep.prepare({file, sample, 3, 0, output}).ok());
  std::vector<int> values;
  std::transform(output.begin(), output.end(), std::back_inserter(values), [](std::byte byte) { return std::to_integer<int>(byte); });
  return values;
}

/// The sample's crop cut from a whole image, then resized.
std::vector<int> cut_and_resize(const std::vector<std::uint8_t>& whole, int width, int height, SampleId sample) {
  const Augmentation drawn = draw_augmentation(byte_options().prep, 4, 3, sample, width, height);
  std::vector<std::uint8_t> cut;
  for (int y = drawn.crop.top; y < drawn.crop.top + drawn.crop.height; ++y) {
    const auto row = whole.begin() + (std::ptrdiff_t{y} * width + drawn.crop.left) * 4;
    cut.insert(cut.end(), row, row + std::ptrdiff_t{4} * drawn.crop.width);
  }
  cut.resize(cut.size() + PixelRows::padding);
  const ScaledCrop scaled = scale_crop_by(drawn.crop, width, height, 1);
  Resizer resizer(prepared_size);
  resizer.begin(scaled.horizontal, scaled.vertical, drawn.mirror);
  resizer.add_rows({cut.data(), static_cast<std::size_t>(drawn.crop.width) * 4, drawn.crop.height});
  std::vector<int> values;
  for (int row = 0; row < prepared_size; ++row) {
    const std::uint8_t* pixels = resizer.result_rows(row, 1);
    for (int at = 0; at < prepared_size * 4; ++at) {
      if (at % 4 != 3) values.push_back(pixels[at]);
    }
  }
  return values;
}

double mean_difference(const std::vector<int>& one, const std::vector<int>& other) {
  double sum = 0;
  for (std::size_t at = 0; at < one.size(); ++at) sum += std::abs(one[at] - other[at]);
  return sum / static_cast<double>(one.size());
}

/// One output of a resize to `outputs` with a triangle filter: the inputs it covers and their weights.
struct Taps {
  int first = 0;
  std::vector<double> weights;
};

Taps taps_of(int output, int inputs, int outputs) {
  const double scale = static_cast<double>(inputs) / outputs;
  const double support = std::max(scale, 1.0);
  const double center = (output + 0.5) * scale;
  Taps taps{std::max(static_cast<int>(std::lround(center - support)), 0), {}};
  double total = 0;
  for (int input = taps.first; input < std::min(static_cast<int>(std::lround(center + support)), inputs); ++input) {
    taps.weights.push_back(std::max(1 - std::abs(input + 0.5 - center) / support, 0.0));
    total += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= total;
  return taps;
}

/// Resize the whole picture so that its shorter side has `size` pixels, then cut out the middle; in plain arithmetic.
double centre_value(int width, int height, int x, int y, int channel) {
  const int shorter = std::min(width, height);
  const auto axis = [&](int at, int length) {
    const int resized = prepared_size * length / shorter;
    return taps_of(at + static_cast<int>(std::nearbyint((resized - prepared_size) / 2.0)), length, resized);
  };
  const Taps horizontal = axis(x, width);
  const Taps vertical = axis(y, height);
  double sum = 0;
  for (std::size_t row = 0; row < vertical.weights.size(); ++row) {
    for (std::size_t column = 0; column < horizontal.weights.size(); ++column) {
      const int value = test::picture(horizontal.first + static_cast<int>(column), vertical.first + static_cast<int>(row), channel);
      sum += vertical.weights[row] * horizontal.weights[column] * value;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a PNG becomes the very bytes that its whole image, cut and resized, has") {
  const auto prep = make_image_prep(byte_options())->make();
  for (const test::PngKind& kind : test::all_png_kinds(230, 170)) {
    CAPTURE(kind.color_type);
    CAPTURE(kind.bit_depth);
    const auto file = encode_png(kind);
    const auto whole = test::decode_whole_png(file);
    for (SampleId sample = 0; sample < 8; ++sample) REQUIRE(prepare(*prep, file, sample) == cut_and_resize(whole, 230, 170, sample));
  }
}

TEST_CASE("a WebP becomes the very bytes that its whole image, cut and resized, has") {
  const auto prep = make_image_prep(byte_options())->make();
  for (const test::WebpKind& kind : test::all_webp_kinds(230, 170)) {
    CAPTURE(static_cast<int>(kind.coding));
    const auto file = encode_webp(kind);
    const auto whole = test::decode_whole_webp(file);
    for (SampleId sample = 0; sample < 20; ++sample) REQUIRE(prepare(*prep, file, sample) == cut_and_resize(whole, 230, 170, sample));
  }
}

TEST_CASE("crop and flip of a sample are the same in every format") {
  const auto prep = make_image_prep(byte_options())->make();
  const auto png = encode_png({.width = 300, .height = 200});
  const auto lossless = encode_webp({.width = 300, .height = 200, .coding = WebpCoding::lossless});
  const auto lossy = encode_webp({.width = 300, .height = 200, .quality = 95});
  const auto jpeg = encode_picture({.width = 300, .height = 200, .horizontal_sampling = 1, .vertical_sampling = 1, .quality = 97});
  for (SampleId sample = 0; sample < 20; ++sample) {
    const std::vector<int> expected = prepare(*prep, png, sample);
    REQUIRE(prepare(*prep, lossless, sample) == expected);
    REQUIRE(mean_difference(prepare(*prep, jpeg, sample), expected) < 2);
    REQUIRE(mean_difference(prepare(*prep, lossy, sample), expected) < 4);
    REQUIRE(mean_difference(prepare(*prep, png, sample + 1), expected) > 4);
  }
}

TEST_CASE("a format is what the first bytes say") {
  const auto of = [](const std::string& bytes) { return recognise_image(std::as_bytes(std::span(bytes))); };
  CHECK(recognise_image(encode_picture({})) == ImageFormat::jpeg);
  CHECK(recognise_image(encode_png({})) == ImageFormat::png);
  CHECK(recognise_image(encode_webp({})) == ImageFormat::webp);
  CHECK(of("GIF89a and so on") == ImageFormat::gif);
  CHECK(of(std::string("II*\0 and so on", 14)) == ImageFormat::tiff);
  CHECK(of("RIFF....WAVEfmt ") == ImageFormat::unknown);
  CHECK(of("RIFF....WEB") == ImageFormat::unknown);
  CHECK(of("") == ImageFormat::unknown);
}

TEST_CASE("what is no image is corrupt, other kinds of image are unsupported, and the next good one of any format is prepared") {
  const auto prep = make_image_prep(byte_options())->make();
  const auto code = [&](std::span<const std::byte> file) {
    std::vector<std::byte> output(std::size_t{prepared_size} * prepared_size * 3);
    return prep->prepare({file, 0, 0, 0, output}).code;
  };
  const auto text = [](const std::string& bytes) { return std::as_bytes(std::span(bytes)); };
  const std::string gif = "GIF89a and so on";
  const std::string png = "\x89PNG\r\n\x1a\n and so on";
  const std::string webp = "RIFF\x10\x01\x01\x01WEBPVP8 and so on";
  const std::vector<std::byte> zeros(4096);
  for (const auto& good : {encode_picture({}), encode_png({}), encode_webp({})}) {
    CHECK(code({}) == StatusCode::corrupt);
    CHECK(code(zeros) == StatusCode::corrupt);
    CHECK(code(text(gif)) == StatusCode::unsupported);
    CHECK(code(text(png)) == StatusCode::corrupt);
    CHECK(code(text(webp)) == StatusCode::corrupt);
    CHECK(code(std::span(good).first(good.size() / 2)) == StatusCode::corrupt);
    CHECK(code(good) == StatusCode::ok);
  }
}

TEST_CASE("a centre crop is the middle of the image whose shorter side was resized to it") {
  const auto prep = make_image_prep(byte_options(CropRule::centre))->make();
  struct Dimensions {
    int width;
    int height;
  };
  for (const Dimensions& dimensions : {Dimensions{300, 200}, {201, 333}, {40, 40}, {30, 20}, {41, 500}, {640, 130}, {1, 9}}) {
    const int width = dimensions.width;
    const int height = dimensions.height;
    CAPTURE(width);
    CAPTURE(height);
    const std::vector<int> values = prepare(*prep, encode_png({.width = width, .height = height}), 0);
    double most = 0;
    for (int y = 0; y < prepared_size; ++y) {
      for (int x = 0; x < prepared_size; ++x) {
        for (int channel = 0; channel < 3; ++channel) {
          const int value =
              values[(static_cast<std::size_t>(y) * prepared_size + static_cast<std::size_t>(x)) * 3 + static_cast<std::size_t>(channel)];
          most = std::max(most, std::abs(value - centre_value(width, height, x, y, channel)));
        }
      }
    }
    CHECK(most < 1.2);  // rounded twice, once for each direction
  }
}

TEST_CASE("nothing is drawn for a centre crop, and a JPEG is decoded smaller for it") {
  ImagePrepOptions options = byte_options(CropRule::centre);
  const auto file = encode_picture({.width = 1500, .height = 1000, .quality = 95});
  const std::vector<int> expected = prepare(*make_image_prep(options)->make(), file, 0);
  options.seed = 5;
  CHECK(prepare(*make_image_prep(options)->make(), file, 17) == expected);
  const auto png = encode_png({.width = 1500, .height = 1000});
  CHECK(mean_difference(prepare(*make_image_prep(options)->make(), png, 0), expected) < 2);
  CHECK(scale_centre(1500, 1000, {prepared_size, prepared_size}, 8).denominator == 8);
  CHECK(scale_centre(1500, 1000, {prepared_size, prepared_size}, 1).denominator == 1);
  CHECK(scale_centre(1500, 159, {prepared_size, prepared_size}, 8).denominator == 1);
}
