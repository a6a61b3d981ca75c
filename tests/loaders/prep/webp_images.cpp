#include "webp_images.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

#include <webp/decode.h>
#include <webp/encode.h>

#include "jpeg_images.hpp"

namespace dsanalyze::test {

std::vector<WebpKind> all_webp_kinds(int width, int height) {
  std::vector<WebpKind> kinds;
  for (const WebpAlpha alpha : {WebpAlpha::none, WebpAlpha::some}) {
    kinds.push_back({.width = width, .height = height, .coding = WebpCoding::lossless, .alpha = alpha});
    for (const WebpFilter filter : {WebpFilter::simple, WebpFilter::strong}) {
      kinds.push_back({.width = width, .height = height, .alpha = alpha, .filter = filter});
      kinds.push_back({.width = width, .height = height, .alpha = alpha, .filter = filter, .quality = 20});
    }
  }
  return kinds;
}

std::vector<std::byte> encode_webp(const WebpKind& kind) {
  WebPConfig config;
  WebPPicture image;
  if (WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, kind.quality) == 0 || WebPPictureInit(&image) == 0) throw std::runtime_error("libwebp");
  config.method = 2;
  config.lossless = kind.coding == WebpCoding::lossless ? 1 : 0;
  config.filter_type = kind.filter == WebpFilter::strong ? 1 : 0;
  config.filter_strength = 60;
  image.width = kind.width;
  image.height = kind.height;
  image.use_argb = 1;
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kind.height; ++y) {
    for (int x = 0; x < kind.width; ++x) {
      for (int channel = 0; channel < 3; ++channel) pixels.push_back(picture(x, y, channel));
      pixels.push_back(kind.alpha == WebpAlpha::some ? static_cast<std::uint8_t>(x + 2 * y) : 255);
    }
  }
  WebPMemoryWriter writer;
  WebPMemoryWriterInit(&writer);
  image.writer = WebPMemoryWrite;
  image.custom_ptr = &writer;
  if (WebPPictureImportRGBA(&image, pixels.data(), kind.width * 4) == 0 || WebPEncode(&config, &image) == 0) throw std::runtime_error("libwebp");
  const auto whole = std::as_bytes(std::span(writer.mem, writer.size));
  std::vector<std::byte> file(whole.begin(), whole.end());
  WebPPictureFree(&image);
  WebPMemoryWriterClear(&writer);
  return file;
}

std::vector<std::uint8_t> decode_whole_webp(std::span<const std::byte> file) {
  int width = 0;
  int height = 0;
  std::uint8_t* pixels = WebPDecodeRGBA(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &width, &height);
  if (pixels == nullptr) return {};
  std::vector<std::uint8_t> result(pixels, pixels + std::ptrdiff_t{4} * width * height);
  WebPFree(pixels);
  return result;
}

std::vector<std::byte> with_webp_dimensions(std::vector<std::byte> file, int width, int height) {
  constexpr std::size_t place = 26;
  file[place] = static_cast<std::byte>(width);
  file[place + 1] = static_cast<std::byte>(width >> 8);
  file[place + 2] = static_cast<std::byte>(height);
  file[place + 3] = static_cast<std::byte>(height >> 8);
  return file;
}

std::vector<std::byte> animated_webp() {
  using namespace std::string_view_literals;
  const std::string file(
      "RIFF\x2C\0\0\0WEBP"
      "VP8X\x0A\0\0\0\x02\0\0\0\x0F\0\0\x0F\0\0"
      "ANIM\x06\0\0\0\0\0\0\0\0\0"
      "ANMF\0\0\0\0"sv);
  const auto bytes = std::as_bytes(std::span(file));
  return {bytes.begin(), bytes.end()};
}

}  // namespace dsanalyze::test
