#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/gpu.hpp"
#include "jpeg_api.hpp"

namespace dsanalyze::cuda {

/// nvJPEG for one thread at a time. The GPU's context must be the calling thread's.
class JpegDecoder {
 public:
  /// Throws Error where the library refuses.
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  std::optional<GpuJpegDecoder::Size> size_of(std::span<const std::byte> encoded);
  bool decode(std::span<const GpuJpeg> images, Stream stream);
  [[nodiscard]] std::string description() const;
  /// The GPU is lost: nothing is given back.
  void forget() { m_library = nullptr; }

 private:
  /// For groups of so many images: the library wants to know before.
  JpegState state_for(std::size_t images);
  void close() noexcept;

  std::shared_ptr<const JpegLibrary> m_library = jpeg_library();
  bool m_engines = true;
  JpegHandle m_handle = nullptr;
  JpegHeader m_header = nullptr;
  std::map<std::size_t, JpegState> m_states;
  std::vector<const unsigned char*> m_data;
  std::vector<std::size_t> m_lengths;
  std::vector<JpegImage> m_images;
};

}  // namespace dsanalyze::cuda
