#include "any_image_decoder.hpp"

#include <array>
#include <cstring>
#include <string_view>

namespace dsanalyze {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  ImageFormat format;
  std::string_view bytes;
  std::size_t offset = 0;
};

constexpr std::array beginnings{
    Beginning{ImageFormat::jpeg, "\xFF\xD8\xFF"sv}, Beginning{ImageFormat::png, "\x89PNG\r\n\x1A\n"sv},
    Beginning{ImageFormat::webp, "WEBP"sv, 8},      Beginning{ImageFormat::gif, "GIF87a"sv},
    Beginning{ImageFormat::gif, "GIF89a"sv},        Beginning{ImageFormat::tiff, "II*\0"sv},
    Beginning{ImageFormat::tiff, "MM\0*"sv},
};

bool begins_with(std::span<const std::byte> encoded, const Beginning& beginning) {
  const std::size_t end = beginning.offset + beginning.bytes.size();
  return encoded.size() >= end && std::memcmp(encoded.data() + beginning.offset, beginning.bytes.data(), beginning.bytes.size()) == 0;
}

}  // namespace

ImageFormat recognise_image(std::span<const std::byte> encoded) {
  for (const Beginning& beginning : beginnings) {
    if (begins_with(encoded, beginning)) return beginning.format;
  }
  return ImageFormat::unknown;
}

Status AnyImageDecoder::open(std::span<const std::byte> encoded) {
  switch (recognise_image(encoded)) {
    case ImageFormat::jpeg:
      m_current = &m_jpeg;
      break;
    case ImageFormat::png:
      m_current = &m_png;
      break;
    case ImageFormat::webp:
      m_current = &m_webp;
      break;
    case ImageFormat::gif:
    case ImageFormat::tiff:
      return {StatusCode::unsupported};
    case ImageFormat::unknown:
      return {StatusCode::corrupt};
  }
  return m_current->open(encoded);
}

Status read_image_info(std::span<const std::byte> encoded, ImageInfo& info) {
  AnyImageDecoder decoder;
  const Status status = decoder.open(encoded);
  if (status.ok()) info = decoder.info();
  return status;
}

}  // namespace dsanalyze
