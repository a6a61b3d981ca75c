// The plainest decoding of JPEG images on a GPU that there is: nvJPEG's batched decoder (nvjpegDecodeBatched, as NVIDIA's sample nvJPEG calls it), images in
// memory, pixels to the GPU, nothing else. Of several numbers of threads and images in a batch, each with a decoder of its own: prints the best rate in
// images a second, and the number of JPEG engines.
// usage: nvjpeg_loop FOLDER SECONDS; nvcc -O2 -std=c++17 -o nvjpeg_loop nvjpeg_loop.cu -lnvjpeg

#include <cuda_runtime.h>
#include <nvjpeg.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace {

struct Image {
  std::vector<unsigned char> bytes;
  int width = 0;
  int height = 0;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

#define REQUIRE(CALL)                                                        \
  if (const auto result = (CALL); result != 0) {                             \
    std::fprintf(stderr, "%s: %d\n", #CALL, static_cast<int>(result));       \
    std::exit(1);                                                            \
  }

void decode(const std::vector<Image>& images, nvjpegBackend_t backend, int batch, std::size_t at, double until, std::atomic<long>& decoded) {
  nvjpegHandle_t handle;
  nvjpegJpegState_t state;
  cudaStream_t stream;
  REQUIRE(nvjpegCreateEx(backend, nullptr, nullptr, 0, &handle));
  REQUIRE(nvjpegJpegStateCreate(handle, &state));
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(nvjpegDecodeBatchedInitialize(handle, state, batch, 1, NVJPEG_OUTPUT_RGBI));
  std::size_t largest = 0;
  for (const Image& image : images) largest = std::max(largest, std::size_t{3} * image.width * image.height);
  unsigned char* pixels = nullptr;
  REQUIRE(cudaMalloc(&pixels, largest * batch));
  std::vector<const unsigned char*> data(batch);
  std::vector<std::size_t> lengths(batch);
  std::vector<nvjpegImage_t> targets(batch);
  while (now() < until) {
    for (int i = 0; i < batch; ++i) {
      const Image& image = images[at++ % images.size()];
      data[i] = image.bytes.data();
      lengths[i] = image.bytes.size();
      targets[i] = {};
      targets[i].channel[0] = pixels + largest * i;
      targets[i].pitch[0] = 3 * image.width;
    }
    REQUIRE(nvjpegDecodeBatched(handle, state, data.data(), lengths.data(), targets.data(), stream));
    REQUIRE(cudaStreamSynchronize(stream));
    decoded += batch;
  }
  nvjpegJpegStateDestroy(state);
  nvjpegDestroy(handle);
  cudaFree(pixels);
  cudaStreamDestroy(stream);
}

double rate(const std::vector<Image>& images, nvjpegBackend_t backend, int threads, int batch, double seconds) {
  constexpr double starting = 1.2;
  std::atomic<long> decoded{0};
  std::vector<std::thread> pool;
  const double until = now() + starting + seconds + 0.1;
  for (int i = 0; i < threads; ++i)
    pool.emplace_back(decode, std::cref(images), backend, batch, static_cast<std::size_t>(i) * 997, until, std::ref(decoded));
  std::this_thread::sleep_for(std::chrono::duration<double>(starting));
  const long before = decoded;
  const double begun = now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double found = static_cast<double>(decoded - before) / (now() - begun);
  for (std::thread& thread : pool) thread.join();
  return found;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const double seconds = std::atof(words[2]);
  nvjpegHandle_t handle;
  REQUIRE(nvjpegCreateSimple(&handle));
  std::vector<Image> images;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(words[1])) {
    if (entry.path().extension() != ".jpg") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    Image image;
    image.bytes.assign(std::istreambuf_iterator<char>(file), {});
    int components = 0;
    int widths[NVJPEG_MAX_COMPONENT];
    int heights[NVJPEG_MAX_COMPONENT];
    nvjpegChromaSubsampling_t sampling;
    if (nvjpegGetImageInfo(handle, image.bytes.data(), image.bytes.size(), &components, &sampling, widths, heights) != 0) continue;
    image.width = widths[0];
    image.height = heights[0];
    images.push_back(std::move(image));
  }
  unsigned engines = 0;
  unsigned cores = 0;
  nvjpegHandle_t by_engines;
  const bool has_engines =
      nvjpegCreateEx(NVJPEG_BACKEND_HARDWARE, nullptr, nullptr, 0, &by_engines) == 0 && nvjpegGetHardwareDecoderInfo(by_engines, &engines, &cores) == 0;
  double best = 0;
  for (const int threads : {1, 2})
    for (const int batch : {32, 128})
      best = std::max(best, rate(images, has_engines ? NVJPEG_BACKEND_HARDWARE : NVJPEG_BACKEND_GPU_HYBRID, threads, batch, seconds));
  std::printf("%.0f %u\n", best, engines);
  return 0;
}
