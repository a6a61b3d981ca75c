#pragma once
// How tests settle what the fake driver (fake_driver.cpp) shows, and what of it is held.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dsanalyze {

/// What the fake driver shows from its next start on.
struct Fake {
  explicit Fake(const char* settings) { ::setenv("FAKE_CUDA", settings, 1); }
  ~Fake() { ::unsetenv("FAKE_CUDA"); }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  /// Of what the program took and did not give back.
  static int held() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<int (*)()>(::dlsym(library, "fake_cuda_held"))();
  }
};

/// What the fake nvJPEG does.
struct FakeNvjpeg {
  explicit FakeNvjpeg(const char* words) { ::setenv("FAKE_NVJPEG", words, 1); }
  ~FakeNvjpeg() { ::unsetenv("FAKE_NVJPEG"); }
  FakeNvjpeg(const FakeNvjpeg&) = delete;
  FakeNvjpeg& operator=(const FakeNvjpeg&) = delete;
};

/// A file that the fake driver takes for compiled kernels.
inline std::filesystem::path kernels() {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("dsanalyze-kernels-" + std::to_string(::getpid()));
  std::ofstream(file) << "compiled for every GPU";
  return file;
}

}  // namespace dsanalyze
