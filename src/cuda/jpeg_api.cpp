#include "jpeg_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::cuda {
namespace {

constexpr std::array<const char*, 2> nvjpeg_names{"libnvjpeg.so.13", "libnvjpeg.so.12"};

/// Where NVIDIA's Python package puts it, below the folders of packages that are likely here.
std::vector<std::string> packaged() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  std::vector<std::string> roots{"/usr/lib/python3", "/usr/local/lib/python3*", "/usr/lib/python3*"};
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string value = variable(name); !value.empty()) roots.insert(roots.begin(), value + "/lib/python3*");
  if (const std::string home = variable("HOME"); !home.empty()) roots.push_back(home + "/.local/lib/python3*");
  std::vector<std::string> found;
  for (const std::string& root : roots) {
    for (const char* folder : {"site-packages", "dist-packages"}) {
      glob_t files{};
      if (::glob(fmt::format("{}/{}/nvidia/*/lib/libnvjpeg.so.1[23]", root, folder).c_str(), 0, nullptr, &files) == 0)
        for (std::size_t i = 0; i < files.gl_pathc; ++i) found.emplace_back(files.gl_pathv[i]);
      ::globfree(&files);
    }
  }
  return found;
}

void* open_nvjpeg() {
  for (const char* name : nvjpeg_names)
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  for (const char* name : nvjpeg_names)
    if (void* const library = ::dlopen(fmt::format("/usr/local/cuda/lib64/{}", name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  for (const std::string& file : packaged())
    if (void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw UsageError(
      fmt::format("decoding on the GPU needs NVIDIA's nvJPEG ({}), which is neither among the system's libraries, nor in /usr/local/cuda, nor in a "
                  "Python package: "
                  "install CUDA's toolkit, or the package nvidia-nvjpeg (`pip install nvidia-nvjpeg`), or pass --prep cpu",
                  fmt::join(nvjpeg_names, ", ")));
}

}  // namespace

JpegLibrary::JpegLibrary() {
  void* const library = open_nvjpeg();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) throw UsageError(fmt::format("NVIDIA's nvJPEG is too old: it has no {}; install that of CUDA 12 or newer", name));
  };
#define FIND(NAME) find(m_functions.NAME, #NAME)
  FIND(nvjpegCreateEx);
  FIND(nvjpegDestroy);
  FIND(nvjpegJpegStateCreate);
  FIND(nvjpegJpegStateDestroy);
  FIND(nvjpegJpegStreamCreate);
  FIND(nvjpegJpegStreamDestroy);
  FIND(nvjpegJpegStreamParseHeader);
  FIND(nvjpegJpegStreamGetFrameDimensions);
  FIND(nvjpegJpegStreamGetComponentsNum);
  FIND(nvjpegDecodeBatchedSupported);
  FIND(nvjpegDecodeBatchedInitialize);
  FIND(nvjpegDecodeBatched);
  FIND(nvjpegGetHardwareDecoderInfo);
  FIND(nvjpegGetProperty);
#undef FIND
}

std::string JpegLibrary::version() const {
  int major = 0;
  int minor = 0;
  static_cast<void>(m_functions.nvjpegGetProperty(0, &major));
  static_cast<void>(m_functions.nvjpegGetProperty(1, &minor));
  return fmt::format("{}.{}", major, minor);
}

std::shared_ptr<const JpegLibrary> jpeg_library() {
  static std::mutex mutex;
  static std::shared_ptr<const JpegLibrary> library;
  const std::scoped_lock lock(mutex);
  if (!library) library = std::make_shared<const JpegLibrary>();
  return library;
}

}  // namespace dsanalyze::cuda
