#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "decoded_image.hpp"
#include "jpeg_images.hpp"
#include "loaders/prep/jpeg_decoder.hpp"

using namespace dsanalyze;
using test::Coding;
using test::decode;
using test::decode_whole;
using test::Decoded;
using test::difference;
using test::Difference;
using test::draw_rectangle;
using test::encode_picture;
using test::ImageKind;
using test::Inks;
using test::picture;
using test::Scans;

namespace {

void check_crops_match(const ImageKind& kind, int crops = 60) {
  CAPTURE(kind.width);
  CAPTURE(kind.horizontal_sampling);
  CAPTURE(kind.vertical_sampling);
  CAPTURE(static_cast<int>(kind.inks));
  CAPTURE(static_cast<int>(kind.scans));
  const auto file = encode_picture(kind);
  JpegDecoder decoder;
  for (const int denominator : {1, 2, 4, 8}) {
    CAPTURE(denominator);
    const int width = scaled_size(kind.width, denominator);
    const int height = scaled_size(kind.height, denominator);
    const Decoded whole = decode(decoder, file, {0, 0, width, height}, denominator);
    REQUIRE(whole.status.ok());
    RandomStream random(7);
    for (int crop = 0; crop < crops; ++crop) {
      const PixelRectangle rectangle = draw_rectangle(random, width, height);
      const Decoded part = decode(decoder, file, rectangle, denominator);
      REQUIRE(part.status.ok());
      REQUIRE(part.pixels.size() == std::size_t{4} * static_cast<std::size_t>(rectangle.width) * static_cast<std::size_t>(rectangle.height));
      REQUIRE(difference(part, whole, rectangle).most == 0);
    }
  }
}

double mean_distance_to_picture(const Decoded& decoded, const ImageKind& kind) {
  double sum = 0;
  for (int y = 0; y < kind.height; ++y) {
    for (int x = 0; x < kind.width; ++x) {
      for (int channel = 0; channel < 3; ++channel) {
        double expected = picture(x, y, channel);
        if (kind.inks == Inks::grey) expected = picture(x, y, 0);
        if (kind.inks == Inks::cmyk || kind.inks == Inks::ycck) expected = expected * picture(x, y, 3) / 255;
        sum += std::abs(decoded.at(x, y, channel) - expected);
      }
    }
  }
  return sum / (3.0 * kind.width * kind.height);
}

}  // namespace

TEST_CASE("a decoded crop has the very bytes of the whole image, in every sampling, kind of scan and scale") {
  for (const int horizontal : {1, 2, 3, 4}) {
    for (const int vertical : {1, 2, 3, 4}) {
      if (horizontal * vertical > 8) continue;  // JPEG has no room for more
      for (const Scans scans : {Scans::baseline, Scans::progressive}) {
        check_crops_match({.width = 203, .height = 155, .scans = scans, .horizontal_sampling = horizontal, .vertical_sampling = vertical}, 20);
      }
    }
  }
  check_crops_match({.width = 128, .height = 96, .restart_interval = 3});
  for (const Inks inks : {Inks::grey, Inks::rgb, Inks::cmyk, Inks::ycck}) check_crops_match({.width = 101, .height = 67, .inks = inks});
  check_crops_match({.width = 3, .height = 2});
  check_crops_match({.width = 101, .height = 67, .coding = Coding::arithmetic});
}

TEST_CASE("a progressive image that lacks its last scans is the same in part and as a whole, though the library smooths it") {
  const auto file = encode_picture({.width = 203, .height = 155, .scans = Scans::progressive});
  auto cut = std::vector<std::byte>(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() / 3));
  cut.insert(cut.end(), {std::byte{0xFF}, std::byte{0xD9}});
  JpegDecoder decoder;
  const Decoded whole = decode_whole(decoder, cut);
  REQUIRE(whole.status.ok());
  RandomStream random(7);
  for (int crop = 0; crop < 60; ++crop) {
    const PixelRectangle rectangle = draw_rectangle(random, 203, 155);
    REQUIRE(difference(decode(decoder, cut, rectangle), whole, rectangle).most == 0);
  }
}

TEST_CASE("arithmetic coding holds the same picture") {
  JpegDecoder decoder;
  for (const Scans scans : {Scans::baseline, Scans::progressive}) {
    const Decoded usual = decode_whole(decoder, encode_picture({.scans = scans}));
    const Decoded arithmetic = decode_whole(decoder, encode_picture({.scans = scans, .coding = Coding::arithmetic}));
    REQUIRE(arithmetic.status.ok());
    CHECK(arithmetic.pixels == usual.pixels);
  }
}

TEST_CASE("every colour space comes out as red, green and blue") {
  JpegDecoder decoder;
  for (const Inks inks : {Inks::grey, Inks::rgb, Inks::ycc, Inks::cmyk, Inks::ycck}) {
    for (const Scans scans : {Scans::baseline, Scans::progressive}) {
      CAPTURE(static_cast<int>(inks));
      const ImageKind kind{.inks = inks, .scans = scans, .horizontal_sampling = 1, .vertical_sampling = 1, .quality = 97};
      const auto file = encode_picture(kind);
      const Decoded decoded = decode_whole(decoder, file);
      REQUIRE(decoded.status.ok());
      CHECK(mean_distance_to_picture(decoded, kind) < 1.5);
    }
  }
}

TEST_CASE("an image of twelve megapixels is decoded, whole and at an eighth of its size") {
  const ImageKind kind{.width = 4000, .height = 3000};
  const auto file = encode_picture(kind);
  JpegDecoder decoder;
  const Decoded part = decode(decoder, file, {3900, 2950, 100, 50});
  REQUIRE(part.status.ok());
  CHECK(std::abs(part.at(50, 25, 0) - picture(3950, 2975, 0)) < 12);
  const Decoded small = decode(decoder, file, {0, 0, 500, 375}, 8);
  REQUIRE(small.status.ok());
  CHECK(small.pixels.size() == std::size_t{500} * 375 * 4);
}

TEST_CASE("the header alone tells size, components and kind of scan") {
  ImageInfo info;
  REQUIRE(read_image_info(encode_picture({.width = 77, .height = 33, .inks = Inks::grey}), info).ok());
  CHECK(info.width == 77);
  CHECK(info.height == 33);
  CHECK(info.components == 1);
  CHECK_FALSE(info.progressive);
  REQUIRE(read_image_info(encode_picture({.inks = Inks::cmyk, .scans = Scans::progressive}), info).ok());
  CHECK(info.components == 4);
  CHECK(info.progressive);
}

TEST_CASE("absurd dimensions are corrupt, and found before memory is taken for them") {
  JpegDecoder decoder;
  for (const Scans scans : {Scans::baseline, Scans::progressive}) {
    const auto file = encode_picture({.scans = scans});
    CHECK(decoder.open(test::with_dimensions(file, 65535, 65535)).code == StatusCode::corrupt);
    auto long_enough = test::with_dimensions(file, 20000, 20000);
    long_enough.resize(500'000);
    CHECK(decoder.open(long_enough).code == StatusCode::corrupt);
    CHECK(decoder.open(test::with_dimensions(file, 15000, 15000)).code == StatusCode::corrupt);
    CHECK(decoder.open(test::with_dimensions(file, 0, 100)).code == StatusCode::corrupt);
    CHECK(decoder.open(file).ok());
  }
}

TEST_CASE("random bytes after the header give a status, and never take the decoder down") {
  constexpr std::uint64_t seed = 21;
  RandomStream random(seed);
  JpegDecoder decoder;
  const auto file = encode_picture({.width = 64, .height = 48});
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(seed);
    CAPTURE(round);
    const Decoded decoded = decode_whole(decoder, test::garbage_after(file, 2 + random.below(file.size() - 2), random));
    REQUIRE((decoded.status.ok() || test::is_refusal(decoded.status)));
    refused += decoded.status.ok() ? 0 : 1;
  }
  CHECK(refused > 200);
}

TEST_CASE("what is no JPEG file is corrupt") {
  JpegDecoder decoder;
  CHECK(decoder.open({}).code == StatusCode::corrupt);
  const std::string png = "\x89PNG\r\n\x1a\n and so on";
  CHECK(decoder.open(std::as_bytes(std::span(png))).code == StatusCode::corrupt);
  const std::vector<std::byte> zeros(4096);
  CHECK(decoder.open(zeros).code == StatusCode::corrupt);
}

TEST_CASE("a file cut off anywhere is corrupt, even if the crop lies before the cut") {
  JpegDecoder decoder;
  for (const Scans scans : {Scans::baseline, Scans::progressive}) {
    const auto file = encode_picture({.width = 64, .height = 48, .scans = scans, .quality = 75});
    for (std::size_t length = 0; length < file.size(); ++length) {
      CAPTURE(length);
      const auto cut = std::span(file).first(length);
      REQUIRE(decode(decoder, cut, {0, 0, 64, 48}).status.code == StatusCode::corrupt);
      REQUIRE(decode(decoder, cut, {5, 3, 20, 8}).status.code == StatusCode::corrupt);
    }
    CHECK(decode(decoder, file, {5, 3, 20, 8}).status.ok());
  }
}

TEST_CASE("bytes behind the end of the image do no harm") {
  auto file = encode_picture({});
  file.resize(file.size() + 1000);
  JpegDecoder decoder;
  CHECK(decode(decoder, file, {0, 0, 20, 20}).status.ok());
  CHECK(decode_whole(decoder, file).status.ok());
}

TEST_CASE("flipped bytes give a status and leave the decoder fit for the next image") {
  constexpr std::uint64_t seed = 20;
  RandomStream random(seed);
  JpegDecoder decoder;
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    const ImageKind kind{.width = 48,
                         .height = 40,
                         .inks = round % 5 == 0 ? Inks::ycck : Inks::ycc,
                         .scans = round % 2 == 0 ? Scans::baseline : Scans::progressive,
                         .restart_interval = round % 3};
    const auto good = encode_picture(kind);
    const auto bad = test::spoilt(good, random);
    const Decoded decoded = decode_whole(decoder, bad);
    CAPTURE(seed);
    CAPTURE(round);
    const StatusCode code = decoded.status.code;
    REQUIRE((code == StatusCode::ok || code == StatusCode::corrupt || code == StatusCode::unsupported));
    refused += code == StatusCode::ok ? 0 : 1;
    REQUIRE(decode(decoder, good, {8, 8, 16, 16}).status.ok());
  }
  CHECK(refused > 100);
}
