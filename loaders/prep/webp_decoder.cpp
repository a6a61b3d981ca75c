#include "any_image_decoder.hpp"

#include <algorithm>
#include <cerrno>

namespace dsanalyze {
namespace {

constexpr std::size_t riff_bytes = 8;

struct Side {
  int first = 0;
  int length = 0;
};

/// With the margin; the library begins at even columns and rows.
Side widen(int first, int length, int image_size) {
  const int begin = std::max(first - upsampling_margin, 0) & ~1;
  const int end = std::min(first + length + upsampling_margin, image_size);
  return {begin, end - begin};
}

/// A file that is shorter than its first eight bytes say.
bool is_cut_off(std::span<const std::byte> encoded) {
  std::size_t length = 0;
  for (std::size_t at = riff_bytes; at-- > 4;) length = length << 8 | std::to_integer<std::size_t>(encoded[at]);
  return length > encoded.size() - riff_bytes;
}

Status status_of(VP8StatusCode code) {
  switch (code) {
    case VP8_STATUS_OK:
      return {};
    case VP8_STATUS_OUT_OF_MEMORY:
      return {StatusCode::io, ENOMEM};
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return {StatusCode::unsupported};
    default:
      return {StatusCode::corrupt};
  }
}

}  // namespace

Status WebpDecoder::open(std::span<const std::byte> encoded) {
  m_rows = {};
  m_pixels.trim();
  m_encoded = encoded;
  if (encoded.size() < riff_bytes || is_cut_off(encoded)) return {StatusCode::corrupt};
  WebPBitstreamFeatures features;
  const Status status = status_of(WebPGetFeatures(reinterpret_cast<const std::uint8_t*>(encoded.data()), encoded.size(), &features));
  if (!status.ok()) return status;
  if (features.has_animation != 0) return {StatusCode::unsupported};
  if (features.width < 1 || features.height < 1) return {StatusCode::corrupt};
  m_info = {features.width, features.height, features.has_alpha != 0 ? 4 : 3, false, ImageFormat::webp};
  // An extended header has room for 2^24 a side.
  const bool is_absurd = std::max(m_info.width, m_info.height) > max_image_side || std::int64_t{m_info.width} * m_info.height > max_image_pixels;
  return {is_absurd ? StatusCode::corrupt : StatusCode::ok};
}

Status WebpDecoder::begin(const PixelRectangle& rectangle, int) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return {StatusCode::unsupported};
  const Side x = widen(rectangle.left, rectangle.width, m_info.width);
  const Side y = widen(rectangle.top, rectangle.height, m_info.height);
  const std::size_t stride = static_cast<std::size_t>(x.length) * bytes_per_pixel;
  const std::size_t bytes = stride * static_cast<std::size_t>(y.length);
  if (!m_pixels.reserve(bytes + PixelRows::padding)) return {StatusCode::io, ENOMEM};

  config.options.use_cropping = 1;
  config.options.crop_left = x.first;
  config.options.crop_width = x.length;
  config.options.crop_top = y.first;
  config.options.crop_height = y.length;
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {m_pixels.data(), static_cast<int>(stride), bytes};
  const auto* encoded = reinterpret_cast<const std::uint8_t*>(m_encoded.data());
  const Status status = status_of(WebPDecode(encoded, m_encoded.size(), &config));
  WebPFreeDecBuffer(&config.output);
  if (!status.ok()) return status;
  const std::size_t before =
      stride * static_cast<std::size_t>(rectangle.top - y.first) + static_cast<std::size_t>(rectangle.left - x.first) * bytes_per_pixel;
  m_rows = {m_pixels.data() + before, stride, rectangle.height};
  return {};
}

Status WebpDecoder::next_rows(PixelRows& rows) {
  rows = m_rows;
  m_rows.count = 0;
  return {};
}

}  // namespace dsanalyze
