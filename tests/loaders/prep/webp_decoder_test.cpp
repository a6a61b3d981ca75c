#include <doctest/doctest.h>

#include <algorithm>

#include "decoded_image.hpp"
#include "loaders/prep/any_image_decoder.hpp"
#include "webp_images.hpp"

using namespace dsanalyze;
using test::all_webp_kinds;
using test::decode;
using test::decode_whole;
using test::Decoded;
using test::draw_rectangle;
using test::encode_webp;
using test::WebpAlpha;
using test::WebpCoding;
using test::WebpKind;

namespace {

void check_crops_equal(const WebpKind& kind) {
  CAPTURE(kind.width);
  CAPTURE(static_cast<int>(kind.coding));
  CAPTURE(static_cast<int>(kind.alpha));
  CAPTURE(static_cast<int>(kind.filter));
  CAPTURE(kind.quality);
  const auto file = encode_webp(kind);
  const Decoded whole{{}, kind.width, test::decode_whole_webp(file)};
  REQUIRE(whole.pixels.size() == std::size_t{4} * static_cast<std::size_t>(kind.width) * static_cast<std::size_t>(kind.height));
  WebpDecoder decoder;
  RandomStream random(6);
  for (int crop = 0; crop < 60; ++crop) {
    const PixelRectangle rectangle = crop == 0 ? PixelRectangle{0, 0, kind.width, kind.height} : draw_rectangle(random, kind.width, kind.height);
    CAPTURE(rectangle.left);
    CAPTURE(rectangle.top);
    CAPTURE(rectangle.width);
    CAPTURE(rectangle.height);
    const Decoded part = decode(decoder, file, rectangle);
    REQUIRE(part.status.ok());
    REQUIRE(part.pixels.size() == std::size_t{4} * static_cast<std::size_t>(rectangle.width) * static_cast<std::size_t>(rectangle.height));
    REQUIRE(test::difference(part, whole, rectangle).most == 0);
  }
}

}  // namespace

TEST_CASE("a decoded crop of a WebP is exactly that part of the whole image, lossy and lossless") {
  for (const WebpKind& kind : all_webp_kinds(203, 155)) check_crops_equal(kind);
  for (const WebpKind& kind : all_webp_kinds(48, 33)) check_crops_equal(kind);
  for (const WebpKind& kind : all_webp_kinds(3, 2)) check_crops_equal(kind);
  for (const WebpKind& kind : all_webp_kinds(1, 1)) check_crops_equal(kind);
}

TEST_CASE("a WebP header tells size and channels") {
  ImageInfo info;
  REQUIRE(read_image_info(encode_webp({.width = 77, .height = 33}), info).ok());
  CHECK(info.format == ImageFormat::webp);
  CHECK(info.width == 77);
  CHECK(info.height == 33);
  CHECK(info.components == 3);
  CHECK_FALSE(info.progressive);
  REQUIRE(read_image_info(encode_webp({.coding = WebpCoding::lossless, .alpha = WebpAlpha::some}), info).ok());
  CHECK(info.components == 4);
}

TEST_CASE("an animated WebP is unsupported") {
  WebpDecoder decoder;
  CHECK(decoder.open(test::animated_webp()).code == StatusCode::unsupported);
}

TEST_CASE("absurd dimensions of a WebP are corrupt") {
  WebpDecoder decoder;
  const auto file = encode_webp({});
  CHECK(decoder.open(test::with_webp_dimensions(file, 16383, 16383)).code == StatusCode::corrupt);
  CHECK(decoder.open(test::with_webp_dimensions(file, 0, 100)).code == StatusCode::corrupt);
  CHECK(decode_whole(decoder, test::with_webp_dimensions(file, 5000, 5000)).status.code == StatusCode::corrupt);
  CHECK(decoder.open(file).ok());
}

TEST_CASE("a WebP cut off anywhere is corrupt, even if the crop lies before the cut") {
  WebpDecoder decoder;
  for (const WebpKind& kind : all_webp_kinds(31, 23)) {
    const auto file = encode_webp(kind);
    for (std::size_t length = 0; length < file.size(); ++length) {
      CAPTURE(length);
      const auto cut = std::span(file).first(length);
      REQUIRE(decoder.open(cut).code == StatusCode::corrupt);
      REQUIRE(decode(decoder, cut, {0, 0, 31, 23}).status.code == StatusCode::corrupt);
      REQUIRE(decode(decoder, cut, {5, 3, 8, 2}).status.code == StatusCode::corrupt);
    }
    CHECK(decode(decoder, file, {5, 3, 8, 2}).status.ok());
  }
}

TEST_CASE("chunks of absurd length in a WebP are corrupt") {
  WebpDecoder decoder;
  for (const WebpKind& kind : all_webp_kinds(31, 23)) {
    const auto good = encode_webp(kind);
    for (const std::size_t length_at : {4U, 16U}) {
      for (const std::uint32_t length : {0xFFFF'FFFFU, 0xFFFF'FFFEU, 0x8000'0000U, 1'000'000U}) {
        auto file = good;
        for (std::size_t byte = 0; byte < 4; ++byte) file[length_at + byte] = static_cast<std::byte>(length >> (8 * byte));
        CAPTURE(length_at);
        CAPTURE(length);
        CHECK(decode_whole(decoder, file).status.code == StatusCode::corrupt);
      }
    }
  }
}

TEST_CASE("flipped bytes and random ones in a WebP give a status, and leave the decoder fit for the next image") {
  constexpr std::uint64_t seed = 20;
  RandomStream random(seed);
  WebpDecoder decoder;
  std::vector<std::vector<std::byte>> files;
  for (const WebpKind& kind : all_webp_kinds(37, 29)) files.push_back(encode_webp(kind));
  int refused = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::vector<std::byte>& good = files[static_cast<std::size_t>(round) % files.size()];
    CAPTURE(seed);
    CAPTURE(round);
    const auto bad = round % 2 == 0 ? test::spoilt(good, random) : test::garbage_after(good, 12 + random.below(good.size() - 12), random);
    const Decoded decoded = decode_whole(decoder, bad);
    REQUIRE((decoded.status.ok() || test::is_refusal(decoded.status)));
    refused += decoded.status.ok() ? 0 : 1;
    REQUIRE(decode(decoder, good, {8, 8, 16, 16}).status.ok());
  }
  CHECK(refused > 100);
}
