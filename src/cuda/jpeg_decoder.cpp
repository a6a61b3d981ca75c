#include "jpeg_decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"

namespace dsanalyze::cuda {
namespace {

/// Groups that are decoded at once: a state serves groups of one size alone. Smaller groups are filled up with their last image, whose pixels are
/// then written more than once.
constexpr std::array<std::size_t, 12> group_sizes{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr unsigned colours = 3;

/// The last bytes of a whole image are its end marker, but for what some cameras leave behind it.
bool ends_as_jpeg(std::span<const std::byte> encoded) {
  constexpr std::size_t looked_at = 64;
  const auto tail = encoded.last(std::min(encoded.size(), looked_at));
  for (std::size_t i = tail.size(); i-- > 1;)
    if (tail[i] == std::byte{0xD9} && tail[i - 1] == std::byte{0xFF}) return true;
  return false;
}

}  // namespace

JpegDecoder::JpegDecoder() {
  const JpegLibrary& nvjpeg = *m_library;
  JpegResult result = nvjpeg->nvjpegCreateEx(jpeg_by_engines, nullptr, nullptr, jpeg_smooth_colours, &m_handle);
  if (result != jpeg_success) {
    m_engines = false;
    result = nvjpeg->nvjpegCreateEx(jpeg_by_multiprocessors, nullptr, nullptr, jpeg_smooth_colours, &m_handle);
  }
  if (result == jpeg_success) result = nvjpeg->nvjpegJpegStreamCreate(m_handle, &m_header);
  if (result == jpeg_success) return;
  close();
  throw Error(fmt::format("nvJPEG {} does not start on this GPU (its answer is {})", nvjpeg.version(), result));
}

JpegDecoder::~JpegDecoder() { close(); }

void JpegDecoder::close() noexcept {
  if (!m_library) return;
  const JpegLibrary& nvjpeg = *m_library;
  for (const auto& [size, state] : m_states) nvjpeg->nvjpegJpegStateDestroy(state);
  if (m_header != nullptr) nvjpeg->nvjpegJpegStreamDestroy(m_header);
  if (m_handle != nullptr) nvjpeg->nvjpegDestroy(m_handle);
}

std::optional<GpuJpegDecoder::Size> JpegDecoder::size_of(std::span<const std::byte> encoded) {
  const JpegLibrary& nvjpeg = *m_library;
  const auto* const data = reinterpret_cast<const unsigned char*>(encoded.data());
  unsigned width = 0;
  unsigned height = 0;
  unsigned components = 0;
  int unsupported = 1;
  if (!ends_as_jpeg(encoded) || nvjpeg->nvjpegJpegStreamParseHeader(m_handle, data, encoded.size(), m_header) != jpeg_success ||
      nvjpeg->nvjpegJpegStreamGetComponentsNum(m_header, &components) != jpeg_success || components != colours ||
      nvjpeg->nvjpegJpegStreamGetFrameDimensions(m_header, &width, &height) != jpeg_success || width == 0 || height == 0 ||
      nvjpeg->nvjpegDecodeBatchedSupported(m_handle, m_header, &unsupported) != jpeg_success || unsupported != 0)
    return std::nullopt;
  return GpuJpegDecoder::Size{static_cast<int>(width), static_cast<int>(height)};
}

JpegState JpegDecoder::state_for(std::size_t images) {
  if (const auto found = m_states.find(images); found != m_states.end()) return found->second;
  JpegState state = nullptr;
  if ((*m_library)->nvjpegJpegStateCreate(m_handle, &state) != jpeg_success)
    throw Error("nvJPEG gives no state of decoding: is the GPU's memory full?");
  if ((*m_library)->nvjpegDecodeBatchedInitialize(m_handle, state, static_cast<int>(images), 1, jpeg_rgb_pixels) != jpeg_success) {
    (*m_library)->nvjpegJpegStateDestroy(state);
    throw Error("nvJPEG refuses to decode groups of images");
  }
  m_states.emplace(images, state);
  return state;
}

bool JpegDecoder::decode(std::span<const GpuJpeg> images, Stream stream) {
  while (!images.empty()) {
    const auto fitting = std::ranges::find_if(group_sizes, [&](std::size_t size) { return size >= images.size(); });
    const std::size_t count = fitting != group_sizes.end() ? *fitting : group_sizes.back();
    m_data.clear();
    m_lengths.clear();
    m_images.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      const GpuJpeg& image = images[std::min(i, images.size() - 1)];
      m_data.push_back(reinterpret_cast<const unsigned char*>(image.encoded.data()));
      m_lengths.push_back(image.encoded.size());
      m_images[i].channel[0] = reinterpret_cast<unsigned char*>(image.pixels);  // NOLINT(performance-no-int-to-ptr): an address of the GPU
      m_images[i].pitch[0] = image.pitch;
    }
    if ((*m_library)->nvjpegDecodeBatched(m_handle, state_for(count), m_data.data(), m_lengths.data(), m_images.data(), stream) != jpeg_success)
      return false;
    images = images.subspan(std::min(count, images.size()));
  }
  return true;
}

std::string JpegDecoder::description() const {
  unsigned engines = 0;
  unsigned cores = 0;
  const std::string version = m_library->version();
  if (m_engines && (*m_library)->nvjpegGetHardwareDecoderInfo(m_handle, &engines, &cores) == jpeg_success && engines > 0)
    return fmt::format("{} JPEG engine{} (nvJPEG {})", engines, engines == 1 ? "" : "s", version);
  return fmt::format("its multiprocessors (nvJPEG {})", version);
}

}  // namespace dsanalyze::cuda
