#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include <zlib.h>

#include "decoded_image.hpp"
#include "loaders/prep/png_decoder.hpp"
#include "png_images.hpp"

using namespace dsanalyze;
using test::all_png_kinds;
using test::Chunking;
using test::decode;
using test::decode_whole;
using test::Decoded;
using test::draw_rectangle;
using test::encode_png;
using test::find_png_chunk;
using test::Interlacing;
using test::PngKind;
using test::Transparency;

namespace {

void check_crops_equal(const PngKind& kind) {
  CAPTURE(kind.width);
  CAPTURE(kind.color_type);
  CAPTURE(kind.bit_depth);
  CAPTURE(static_cast<int>(kind.interlacing));
  const auto file = encode_png(kind);
  const Decoded whole{{}, kind.width, test::decode_whole_png(file)};
  REQUIRE(whole.pixels.size() == std::size_t{4} * static_cast<std::size_t>(kind.width) * static_cast<std::size_t>(kind.height));
  PngDecoder decoder;
  RandomStream random(5);
  for (int crop = 0; crop < 20; ++crop) {
    const PixelRectangle rectangle = crop == 0 ? PixelRectangle{0, 0, kind.width, kind.height} : draw_rectangle(random, kind.width, kind.height);
    const Decoded part = decode(decoder, file, rectangle);
    REQUIRE(part.status.ok());
    REQUIRE(part.pixels.size() == std::size_t{4} * static_cast<std::size_t>(rectangle.width) * static_cast<std::size_t>(rectangle.height));
    REQUIRE(test::difference(part, whole, rectangle).most == 0);
  }
}

std::vector<std::byte> with_length(std::vector<std::byte> file, std::string_view chunk, std::uint32_t length) {
  const std::size_t at = find_png_chunk(file, chunk);
  REQUIRE(at < file.size());
  for (std::size_t byte = 0; byte < 4; ++byte) file[at + byte] = static_cast<std::byte>(length >> (24 - 8 * byte));
  return file;
}

}  // namespace

TEST_CASE("a decoded crop of a PNG is exactly that part of the whole image, for every colour type, depth and interlacing") {
  for (const PngKind& kind : all_png_kinds(101, 67)) check_crops_equal(kind);
  for (const PngKind& kind : all_png_kinds(3, 2)) check_crops_equal(kind);
  for (const PngKind& kind : all_png_kinds(1, 1)) check_crops_equal(kind);
}

TEST_CASE("transparency that a PNG lists beside its pixels is dropped") {
  for (PngKind kind : all_png_kinds(40, 30)) {
    if ((kind.color_type & PNG_COLOR_MASK_ALPHA) != 0) continue;
    kind.transparency = Transparency::listed;
    check_crops_equal(kind);
  }
}

TEST_CASE("one PNG decoder decodes all kinds, one after the other") {
  PngDecoder decoder;
  for (const PngKind& kind : all_png_kinds(64, 48)) {
    const auto file = encode_png(kind);
    const Decoded whole = decode_whole(decoder, file);
    REQUIRE(whole.status.ok());
    REQUIRE(test::difference(whole, {{}, kind.width, test::decode_whole_png(file)}, {0, 0, kind.width, kind.height}).most == 0);
  }
}

TEST_CASE("a PNG header tells size, channels and interlacing") {
  ImageInfo info;
  REQUIRE(read_image_info(encode_png({.width = 77, .height = 33, .color_type = PNG_COLOR_TYPE_GRAY_ALPHA}), info).ok());
  CHECK(info.format == ImageFormat::png);
  CHECK(info.width == 77);
  CHECK(info.height == 33);
  CHECK(info.components == 2);
  CHECK_FALSE(info.progressive);
  REQUIRE(read_image_info(encode_png({.color_type = PNG_COLOR_TYPE_PALETTE, .interlacing = Interlacing::adam7}), info).ok());
  CHECK(info.components == 1);
  CHECK(info.progressive);
}

TEST_CASE("absurd dimensions of a PNG are corrupt, and found before memory is taken for them") {
  PngDecoder decoder;
  for (const Interlacing interlacing : {Interlacing::none, Interlacing::adam7}) {
    const auto file = encode_png({.interlacing = interlacing});
    const auto opens = [&](std::uint32_t width, std::uint32_t height, std::size_t padding = 0) {
      auto changed = test::with_png_dimensions(file, width, height);
      if (padding > 0) {  // in the image data, so that the file is long enough for the dimensions
        const std::size_t at = find_png_chunk(changed, "IDAT");
        std::vector<std::byte> chunk(padding + 12);
        for (std::size_t byte = 0; byte < 4; ++byte) chunk[byte] = static_cast<std::byte>(padding >> (24 - 8 * byte));
        std::memcpy(chunk.data() + 4, "tEXt", 4);
        const auto checksum = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(chunk.data() + 4), padding + 4));
        for (std::size_t byte = 0; byte < 4; ++byte) chunk[padding + 8 + byte] = static_cast<std::byte>(checksum >> (24 - 8 * byte));
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at), chunk.begin(), chunk.end());
      }
      return decoder.open(changed).code;
    };
    CHECK(opens(65535, 65535) == StatusCode::corrupt);
    CHECK(opens(0x7FFF'FFFF, 0x7FFF'FFFF) == StatusCode::corrupt);
    CHECK(opens(0xFFFF'FFFF, 1) == StatusCode::corrupt);
    CHECK(opens(1, 65536) == StatusCode::corrupt);
    CHECK(opens(0, 10) == StatusCode::corrupt);
    CHECK(opens(15000, 15000) == StatusCode::corrupt);
    CHECK(opens(15000, 15000, 1'000'000) == StatusCode::ok);
    CHECK(opens(20000, 20000, 5'000'000) == StatusCode::corrupt);
    CHECK(opens(160, 120) == StatusCode::ok);
  }
}

TEST_CASE("a PNG cut off anywhere is corrupt, even if the crop lies before the cut") {
  PngDecoder decoder;
  for (const Interlacing interlacing : {Interlacing::none, Interlacing::adam7}) {
    for (const int color_type : {PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE}) {
      const auto file = encode_png({.width = 31, .height = 23, .color_type = color_type, .interlacing = interlacing});
      for (std::size_t length = 0; length < file.size(); ++length) {
        CAPTURE(length);
        const auto cut = std::span(file).first(length);
        REQUIRE(decode(decoder, cut, {0, 0, 31, 23}).status.code == StatusCode::corrupt);
        REQUIRE(decode(decoder, cut, {5, 3, 8, 2}).status.code == StatusCode::corrupt);
      }
      CHECK(decode(decoder, file, {5, 3, 8, 2}).status.ok());
    }
  }
}

TEST_CASE("bytes behind the end of a PNG do no harm") {
  auto file = encode_png({});
  file.resize(file.size() + 1000);
  PngDecoder decoder;
  CHECK(decode_whole(decoder, file).status.ok());
}

TEST_CASE("chunks of absurd length are corrupt") {
  PngDecoder decoder;
  const auto file = encode_png({.color_type = PNG_COLOR_TYPE_PALETTE});
  for (const std::string_view chunk : {"IHDR", "gAMA", "PLTE", "zTXt", "IDAT", "IEND"}) {
    for (const std::uint32_t length : {0xFFFF'FFFFU, 0x8000'0000U, 0x7FFF'FFFFU, 100'000U, 1U, 2U}) {
      CAPTURE(chunk);
      CAPTURE(length);
      CHECK(decode_whole(decoder, with_length(file, chunk, length)).status.code == StatusCode::corrupt);
    }
  }
  CHECK(decode_whole(decoder, file).status.ok());
}

TEST_CASE("a wrong bit in a PNG is found, wherever it lies up to the end of the chunk in which the crop ends") {
  PngDecoder decoder;
  for (const Chunking chunking : {Chunking::one, Chunking::many}) {
    const auto file = encode_png({.width = 60, .height = 40, .color_type = PNG_COLOR_TYPE_PALETTE, .chunking = chunking});
    const std::size_t end = find_png_chunk(file, "IEND");
    for (std::size_t at = 0; at < end; ++at) {
      auto bad = file;
      bad[at] ^= std::byte{1};
      CAPTURE(at);
      REQUIRE(decode_whole(decoder, bad).status.code == StatusCode::corrupt);
      const Status of_first_row = decode(decoder, bad, {0, 0, 60, 1}).status;
      REQUIRE((of_first_row.code == StatusCode::corrupt || (chunking == Chunking::many && at > find_png_chunk(file, "IDAT") + 200)));
    }
  }
}

TEST_CASE("flipped bytes and random ones in a PNG never give wrong pixels, and leave the decoder fit for the next image") {
  constexpr std::uint64_t seed = 20;
  RandomStream random(seed);
  PngDecoder decoder;
  const std::vector<PngKind> kinds = all_png_kinds(37, 29);
  for (int round = 0; round < 1500; ++round) {
    const auto good = encode_png(kinds[static_cast<std::size_t>(round) % kinds.size()]);
    CAPTURE(seed);
    CAPTURE(round);
    const auto bad = round % 2 == 0 ? test::spoilt(good, random) : test::garbage_after(good, 8 + random.below(good.size() - 8), random);
    const Decoded decoded = decode_whole(decoder, bad);
    const Decoded expected = decode_whole(decoder, good);
    REQUIRE(expected.status.ok());
    REQUIRE((decoded.pixels == expected.pixels || test::is_refusal(decoded.status)));
  }
}

TEST_CASE("image data that is too short for its image is corrupt, although every checksum is right") {
  PngDecoder decoder;
  for (const Interlacing interlacing : {Interlacing::none, Interlacing::adam7}) {
    const auto file = test::with_png_dimensions(encode_png({.width = 40, .height = 30, .interlacing = interlacing}), 40, 31);
    CHECK(decode(decoder, file, {0, 0, 40, 31}).status.code == StatusCode::corrupt);
  }
}
