#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "driver_api.hpp"

namespace dsanalyze::cuda {

// What of nvJPEG the program calls. The library comes with NVIDIA's toolkit, or with the Python package nvidia-nvjpeg, and is opened when a decoder
// is asked for; the declarations here stand for nvjpeg.h.

using JpegResult = int;
using JpegHandle = struct HandleOfNvjpeg*;
using JpegState = struct StateOfNvjpeg*;
using JpegHeader = struct StreamOfNvjpeg*;

constexpr JpegResult jpeg_success = 0;
constexpr int jpeg_by_multiprocessors = 2;          ///< NVJPEG_BACKEND_GPU_HYBRID
constexpr int jpeg_by_engines = 3;                  ///< NVJPEG_BACKEND_HARDWARE
constexpr int jpeg_rgb_pixels = 5;                  ///< NVJPEG_OUTPUT_RGBI
constexpr unsigned jpeg_smooth_colours = 1U << 5U;  ///< NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION

/// nvjpegImage_t.
struct JpegImage {
  static constexpr int channels = 4;
  unsigned char* channel[channels] = {};
  std::size_t pitch[channels] = {};
};

struct JpegFunctions {
  JpegResult (*nvjpegCreateEx)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags, JpegHandle* handle);
  JpegResult (*nvjpegDestroy)(JpegHandle handle);
  JpegResult (*nvjpegJpegStateCreate)(JpegHandle handle, JpegState* state);
  JpegResult (*nvjpegJpegStateDestroy)(JpegState state);
  JpegResult (*nvjpegJpegStreamCreate)(JpegHandle handle, JpegHeader* header);
  JpegResult (*nvjpegJpegStreamDestroy)(JpegHeader header);
  JpegResult (*nvjpegJpegStreamParseHeader)(JpegHandle handle, const unsigned char* data, std::size_t length, JpegHeader header);
  JpegResult (*nvjpegJpegStreamGetFrameDimensions)(JpegHeader header, unsigned* width, unsigned* height);
  JpegResult (*nvjpegJpegStreamGetComponentsNum)(JpegHeader header, unsigned* components);
  JpegResult (*nvjpegDecodeBatchedSupported)(JpegHandle handle, JpegHeader header, int* unsupported);
  JpegResult (*nvjpegDecodeBatchedInitialize)(JpegHandle handle, JpegState state, int batch, int cpu_threads, int output);
  JpegResult (*nvjpegDecodeBatched)(JpegHandle handle, JpegState state, const unsigned char* const* data, const std::size_t* lengths,
                                    JpegImage* destinations, Stream stream);
  JpegResult (*nvjpegGetHardwareDecoderInfo)(JpegHandle handle, unsigned* engines, unsigned* cores);
  JpegResult (*nvjpegGetProperty)(int which, int* value);
};

/// The library, opened. Threads: any.
class JpegLibrary {
 public:
  /// Throws UsageError where it is nowhere: says where it was looked for.
  JpegLibrary();
  const JpegFunctions* operator->() const { return &m_functions; }
  /// "13.0"
  [[nodiscard]] std::string version() const;

 private:
  JpegFunctions m_functions{};
};

/// The one of this process, opened when it is first asked for.
std::shared_ptr<const JpegLibrary> jpeg_library();

}  // namespace dsanalyze::cuda
