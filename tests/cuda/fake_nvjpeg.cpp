// NVIDIA's nvJPEG without a GPU, for tests: images are decoded by libjpeg, at once, into memory of the fake driver. FAKE_NVJPEG has words:
// "engines=0" (a GPU without them), "fail" (every group is refused), "broken" (it does not start), "no-size" (no image's size is known).

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <csetjmp>

#include <jpeglib.h>

namespace {

constexpr int success = 0;
constexpr int bad_jpeg = 3;
constexpr int not_supported = 9;

struct Header {
  unsigned width = 0, height = 0, components = 0;
  bool progressive = false;
};
struct Image {
  unsigned char* channel[4];
  std::size_t pitch[4];
};

bool asked(const char* word) {
  const char* const words = std::getenv("FAKE_NVJPEG");
  return words != nullptr && std::strstr(words, word) != nullptr;
}

struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
};
[[noreturn]] void stop(j_common_ptr info) { std::longjmp(reinterpret_cast<Errors*>(info->err)->back, 1); }
void be_silent(j_common_ptr) {}

/// The header, and the pixels where `to` is one. What libjpeg would patch is refused.
int read(const unsigned char* data, std::size_t length, Header& header, unsigned char* to, std::size_t pitch) {
  jpeg_decompress_struct info{};
  Errors errors{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = stop;
  errors.base.output_message = be_silent;
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return bad_jpeg;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, data, static_cast<unsigned long>(length));
  jpeg_read_header(&info, TRUE);
  header = {info.image_width, info.image_height, static_cast<unsigned>(info.num_components), info.progressive_mode != 0};
  if (to != nullptr) {
    info.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = to + pitch * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  const bool patched = errors.base.num_warnings > 0;
  jpeg_destroy_decompress(&info);
  return patched ? bad_jpeg : success;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvjpegCreateEx(int backend, void*, void*, unsigned, void** handle) {
  constexpr int hardware = 3;
  if (asked("broken") || (asked("engines=0") && backend == hardware)) return not_supported;
  *handle = new int(backend);
  return success;
}
EXPORT int nvjpegDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return success;
}
EXPORT int nvjpegJpegStateCreate(void*, void** state) {
  *state = new int(0);
  return success;
}
EXPORT int nvjpegJpegStateDestroy(void* state) {
  delete static_cast<int*>(state);
  return success;
}
EXPORT int nvjpegJpegStreamCreate(void*, void** header) {
  *header = new Header;
  return success;
}
EXPORT int nvjpegJpegStreamDestroy(void* header) {
  delete static_cast<Header*>(header);
  return success;
}
EXPORT int nvjpegJpegStreamParseHeader(void*, const unsigned char* data, std::size_t length, void* header) {
  return read(data, length, *static_cast<Header*>(header), nullptr, 0);
}
EXPORT int nvjpegJpegStreamGetFrameDimensions(void* header, unsigned* width, unsigned* height) {
  *width = static_cast<Header*>(header)->width;
  *height = static_cast<Header*>(header)->height;
  return asked("no-size") ? bad_jpeg : success;
}
EXPORT int nvjpegJpegStreamGetComponentsNum(void* header, unsigned* components) {
  *components = static_cast<Header*>(header)->components;
  return success;
}
EXPORT int nvjpegDecodeBatchedSupported(void*, void* header, int* unsupported) {
  *unsupported = static_cast<Header*>(header)->progressive ? 1 : 0;
  return success;
}
EXPORT int nvjpegDecodeBatchedInitialize(void*, void* state, int batch, int, int) {
  *static_cast<int*>(state) = batch;
  return success;
}
EXPORT int nvjpegDecodeBatched(void*, void* state, const unsigned char* const* data, const std::size_t* lengths, Image* images, void*) {
  if (asked("fail")) return bad_jpeg;
  for (int i = 0; i < *static_cast<int*>(state); ++i) {
    Header header;
    if (const int result = read(data[i], lengths[i], header, images[i].channel[0], images[i].pitch[0]); result != success) return result;
  }
  return success;
}
EXPORT int nvjpegGetHardwareDecoderInfo(void*, unsigned* engines, unsigned* cores) {
  *engines = 7;
  *cores = 1;
  return success;
}
EXPORT int nvjpegGetProperty(int which, int* value) {
  *value = which == 0 ? 13 : 0;
  return success;
}
