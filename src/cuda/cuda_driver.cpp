#include "cuda_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "driver_api.hpp"
#include "jpeg_decoder.hpp"

namespace dsanalyze {
namespace {

using namespace cuda;

/// An opened GPU, which lives as long as anything that it gave out.
class Opened {
 public:
  Opened(std::shared_ptr<const DriverLibrary> library, Device device, const GpuInfo& gpu, const std::string& image)
      : m_library(std::move(library)), m_driver(*m_library), m_device(device) {
    const DriverLibrary& driver = m_driver;
    driver.require(driver->cuDevicePrimaryCtxRetain(&m_context, device), gpu.name);
    try {
      enter();
      driver.require(driver->cuModuleLoadData(&m_module, image.c_str()),
                     fmt::format("kernels for {} (compute capability {}.{}, driver for {})", gpu.name, gpu.compute_major, gpu.compute_minor,
                                 version_text(driver.version())));
      driver.require(driver->cuModuleGetFunction(&m_occupy, m_module, "dsanalyze_occupy"), "the kernel dsanalyze_occupy");
      driver.require(driver->cuModuleGetFunction(&m_crop, m_module, "dsanalyze_crop"), "the kernel dsanalyze_crop");
    } catch (...) {
      close();
      throw;
    }
  }
  ~Opened() { close(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  /// The calling thread's work is this GPU's from now on.
  void enter() const { m_driver.require(m_driver->cuCtxSetCurrent(m_context), "the GPU's context"); }
  /// For destructors: false where the GPU is lost, and there is nothing left to give back.
  [[nodiscard]] bool try_enter() const noexcept { return !m_given_up && m_driver->cuCtxSetCurrent(m_context) == Answer::success; }
  /// It does not answer: to give anything back would wait for it.
  void give_up() const noexcept { m_given_up = true; }
  [[nodiscard]] const DriverLibrary& driver() const { return m_driver; }
  [[nodiscard]] Function occupy() const { return m_occupy; }
  [[nodiscard]] Function crop() const { return m_crop; }

 private:
  void close() noexcept {
    if (m_given_up) return;
    if (m_module != nullptr && try_enter()) m_driver->cuModuleUnload(m_module);
    m_driver->cuDevicePrimaryCtxRelease_v2(m_device);
  }

  std::shared_ptr<const DriverLibrary> m_library;
  const DriverLibrary& m_driver;
  Device m_device;
  Context m_context = nullptr;
  Module m_module = nullptr;
  Function m_occupy = nullptr;
  Function m_crop = nullptr;
  mutable std::atomic<bool> m_given_up{false};
};
using OpenedGpu = std::shared_ptr<const Opened>;

class CudaMemory final : public GpuMemory {
 public:
  CudaMemory(OpenedGpu gpu, const GpuInfo& info, Bytes bytes) : m_gpu(std::move(gpu)), m_size(bytes) {
    m_gpu->enter();
    m_gpu->driver().require(m_gpu->driver()->cuMemAlloc_v2(&m_address, bytes),
                            fmt::format("{} on {}, which has {}", format_bytes(bytes), info.name, format_bytes(info.memory_bytes)));
  }
  ~CudaMemory() override {
    if (m_gpu->try_enter()) m_gpu->driver()->cuMemFree_v2(m_address);
  }
  [[nodiscard]] std::uint64_t address() const override { return m_address; }
  [[nodiscard]] Bytes size() const override { return m_size; }

 private:
  OpenedGpu m_gpu;
  DevicePointer m_address = 0;
  Bytes m_size;
};

class CudaPinned final : public GpuPinned {
 public:
  CudaPinned(OpenedGpu gpu, std::span<const std::byte> memory) : m_gpu(std::move(gpu)), m_memory(const_cast<std::byte*>(memory.data())) {
    constexpr unsigned portable = 1;  // for every GPU of this process
    m_gpu->enter();
    const Result result = m_gpu->driver()->cuMemHostRegister_v2(m_memory, memory.size(), portable);
    if (result == Answer::already_registered) {  // by another GPU's owner, who gives it back
      m_memory = nullptr;
      return;
    }
    m_gpu->driver().require(result, fmt::format("keeping {} of memory in place for the GPU (the limit for locked memory may be too low: ulimit -l)",
                                                format_bytes(memory.size())));
  }
  ~CudaPinned() override {
    if (m_memory != nullptr && m_gpu->try_enter()) m_gpu->driver()->cuMemHostUnregister(m_memory);
  }

 private:
  OpenedGpu m_gpu;
  std::byte* m_memory;
};

class CudaMark;

class CudaStream final : public GpuStream {
 public:
  CudaStream(OpenedGpu gpu, int multiprocessors) : m_gpu(std::move(gpu)), m_multiprocessors(multiprocessors) {
    m_gpu->enter();
    require(m_gpu->driver()->cuStreamCreate(&m_stream, stream_non_blocking), "a stream");
  }
  /// Waits for its work, so that memory which it was given may go; of a GPU that does not end it, everything is left to the end of the process.
  ~CudaStream() override {
    constexpr int looks = 200'000;  // 10 s
    constexpr auto pause = std::chrono::microseconds(50);
    if (!m_gpu->try_enter()) return;
    Result result = Answer::not_ready;
    for (int look = 0; look < looks && (result = m_gpu->driver()->cuStreamQuery(m_stream)) == Answer::not_ready; ++look)
      std::this_thread::sleep_for(pause);
    if (result == Answer::not_ready)
      m_gpu->give_up();
    else
      m_gpu->driver()->cuStreamDestroy_v2(m_stream);
  }
  [[nodiscard]] Stream handle() const { return m_stream; }

  void copy_in(std::uint64_t to, const std::byte* from, Bytes bytes) override {
    m_gpu->enter();
    require(m_gpu->driver()->cuMemcpyHtoDAsync_v2(to, from, bytes, m_stream), "a copy to the GPU");
  }
  void copy_in(std::uint64_t to, const std::byte* from, const GpuRows& rows) override {
    if (rows.stride == rows.bytes || rows.count == 1) return copy_in(to, from, rows.bytes * rows.count);
    Copy2D copy;
    copy.from_type = memory_of_host;
    copy.from_host = from;
    copy.from_pitch = rows.stride;
    copy.to_type = memory_of_device;
    copy.to_device = to;
    copy.to_pitch = rows.bytes;
    copy.width = rows.bytes;
    copy.height = rows.count;
    m_gpu->enter();
    require(m_gpu->driver()->cuMemcpy2DAsync_v2(&copy, m_stream), "a copy of rows to the GPU");
  }
  void copy_out(std::byte* to, std::uint64_t from, Bytes bytes) override {
    m_gpu->enter();
    require(m_gpu->driver()->cuMemcpyDtoHAsync_v2(to, from, bytes, m_stream), "a copy from the GPU");
  }
  void copy_across(std::uint64_t to, std::uint64_t from, Bytes bytes) override {
    m_gpu->enter();
    require(m_gpu->driver()->cuMemcpyAsync(to, from, bytes, m_stream), "a copy between GPUs");
  }
  void occupy(double seconds, const GpuMemory& touched) override {
    constexpr unsigned threads = 256;
    std::uint64_t nanoseconds = static_cast<std::uint64_t>(std::max<Nanoseconds>(to_nanoseconds(seconds), 0));
    std::uint64_t address = touched.address();
    std::uint64_t words = touched.size() / 16;
    std::array<void*, 3> arguments{&nanoseconds, &address, &words};
    m_gpu->enter();
    // One block a multiprocessor, so that all of them run at once.
    require(m_gpu->driver()->cuLaunchKernel(m_gpu->occupy(), static_cast<unsigned>(m_multiprocessors), 1, 1, threads, 1, 1, 0, m_stream,
                                            arguments.data(), nullptr),
            "the kernel dsanalyze_occupy");
  }
  void crop(std::uint64_t crops, std::size_t count, const GpuCropOutput& output) override {
    if (count == 0) return;
    const auto tiles = [&](int length) { return static_cast<unsigned>((output.size + length - 1) / length); };
    GpuCropOutput given = output;
    std::array<void*, 2> arguments{&crops, &given};
    m_gpu->enter();
    require(m_gpu->driver()->cuLaunchKernel(m_gpu->crop(), tiles(gpu_crop_tile_columns), tiles(gpu_crop_tile_rows), static_cast<unsigned>(count),
                                            gpu_crop_tile_columns, gpu_crop_tile_rows, 1, 0, m_stream, arguments.data(), nullptr),
            "the kernel dsanalyze_crop");
  }
  void wait_for(const GpuMark& mark) override;

 private:
  void require(Result result, const char* what) const { m_gpu->driver().require(result, what); }

  OpenedGpu m_gpu;
  int m_multiprocessors;
  Stream m_stream = nullptr;
};

class CudaMark final : public GpuMark {
 public:
  explicit CudaMark(OpenedGpu gpu) : m_gpu(std::move(gpu)) {
    m_gpu->enter();
    require(m_gpu->driver()->cuEventCreate(&m_event, 0), "an event");
  }
  ~CudaMark() override {
    if (m_gpu->try_enter()) m_gpu->driver()->cuEventDestroy_v2(m_event);
  }
  void set(GpuStream& stream) override {
    m_gpu->enter();
    require(m_gpu->driver()->cuEventRecord(m_event, static_cast<CudaStream&>(stream).handle()), "an event");
  }
  [[nodiscard]] bool reached() const override {
    m_gpu->enter();
    const Result result = m_gpu->driver()->cuEventQuery(m_event);
    if (result == Answer::not_ready) return false;
    require(result, "the GPU's work");
    return true;
  }
  [[nodiscard]] double seconds_since(const GpuMark& earlier) const override {
    float milliseconds = 0;
    m_gpu->enter();
    require(m_gpu->driver()->cuEventElapsedTime(&milliseconds, static_cast<const CudaMark&>(earlier).m_event, m_event), "the GPU's clock");
    return static_cast<double>(milliseconds) / 1000;
  }
  [[nodiscard]] Event handle() const { return m_event; }

 private:
  void require(Result result, const char* what) const { m_gpu->driver().require(result, what); }

  OpenedGpu m_gpu;
  Event m_event = nullptr;
};

void CudaStream::wait_for(const GpuMark& mark) {
  m_gpu->enter();
  require(m_gpu->driver()->cuStreamWaitEvent(m_stream, static_cast<const CudaMark&>(mark).handle(), 0), "a wait for an event");
}

/// Decoders that were given back: to start one takes nvJPEG a good part of a second.
class DecoderPool {
 public:
  explicit DecoderPool(OpenedGpu gpu) : m_gpu(std::move(gpu)) {}
  ~DecoderPool() {
    const bool there = m_gpu->try_enter();
    for (const auto& decoder : m_idle)
      if (!there) decoder->forget();
  }
  DecoderPool(const DecoderPool&) = delete;
  DecoderPool& operator=(const DecoderPool&) = delete;
  std::unique_ptr<JpegDecoder> take() {
    m_gpu->enter();
    const std::scoped_lock lock(m_mutex);
    if (m_idle.empty()) return std::make_unique<JpegDecoder>();
    auto decoder = std::move(m_idle.back());
    m_idle.pop_back();
    return decoder;
  }
  void give_back(std::unique_ptr<JpegDecoder> decoder) {
    const std::scoped_lock lock(m_mutex);
    m_idle.push_back(std::move(decoder));
  }
  [[nodiscard]] const Opened& gpu() const { return *m_gpu; }

 private:
  OpenedGpu m_gpu;
  std::mutex m_mutex;
  std::vector<std::unique_ptr<JpegDecoder>> m_idle;
};

class CudaJpegDecoder final : public GpuJpegDecoder {
 public:
  explicit CudaJpegDecoder(std::shared_ptr<DecoderPool> pool) : m_pool(std::move(pool)), m_decoder(m_pool->take()) {}
  ~CudaJpegDecoder() override { m_pool->give_back(std::move(m_decoder)); }
  std::optional<Size> size_of(std::span<const std::byte> encoded) override {
    m_pool->gpu().enter();
    return m_decoder->size_of(encoded);
  }
  bool decode(std::span<const GpuJpeg> images, GpuStream& stream) override {
    m_pool->gpu().enter();
    return m_decoder->decode(images, static_cast<CudaStream&>(stream).handle());
  }
  [[nodiscard]] std::string description() const override { return m_decoder->description(); }

 private:
  std::shared_ptr<DecoderPool> m_pool;
  std::unique_ptr<JpegDecoder> m_decoder;
};

class CudaGpu final : public Gpu {
 public:
  CudaGpu(OpenedGpu opened, GpuInfo info)
      : m_opened(std::move(opened)), m_info(std::move(info)), m_decoders(std::make_shared<DecoderPool>(m_opened)) {}
  [[nodiscard]] const GpuInfo& info() const override { return m_info; }
  std::unique_ptr<GpuMemory> allocate(Bytes bytes) override { return std::make_unique<CudaMemory>(m_opened, m_info, bytes); }
  std::unique_ptr<GpuPinned> pin(std::span<const std::byte> memory) override { return std::make_unique<CudaPinned>(m_opened, memory); }
  std::unique_ptr<GpuStream> make_stream() override { return std::make_unique<CudaStream>(m_opened, m_info.multiprocessors); }
  std::unique_ptr<GpuMark> make_mark() override { return std::make_unique<CudaMark>(m_opened); }
  std::unique_ptr<GpuJpegDecoder> make_jpeg_decoder() override { return std::make_unique<CudaJpegDecoder>(m_decoders); }

 private:
  OpenedGpu m_opened;
  GpuInfo m_info;
  std::shared_ptr<DecoderPool> m_decoders;
};

class CudaDriver final : public GpuDriver {
 public:
  explicit CudaDriver(std::filesystem::path kernels) : m_kernels(std::move(kernels)), m_version(version_text(m_driver->version())) {
    int count = 0;
    m_driver->require((*m_driver)->cuDeviceGetCount(&count), "the number of GPUs");
    for (int number = 0; number < count; ++number) m_gpus.push_back(described(device_of(number)));
  }
  [[nodiscard]] std::span<const GpuInfo> gpus() const override { return m_gpus; }
  [[nodiscard]] const std::string& version() const override { return m_version; }
  std::shared_ptr<Gpu> open(std::size_t number) override {
    const GpuInfo& info = m_gpus.at(number);
    const std::string image = read_file(m_kernels);
    auto opened = std::make_shared<const Opened>(m_driver, device_of(static_cast<int>(number)), info, image);
    return std::make_shared<CudaGpu>(std::move(opened), info);
  }

 private:
  [[nodiscard]] Device device_of(int number) const {
    Device device = 0;
    m_driver->require((*m_driver)->cuDeviceGet(&device, number), fmt::format("GPU {}", number));
    return device;
  }
  [[nodiscard]] int attribute(int which, Device device) const {
    int value = 0;
    m_driver->require((*m_driver)->cuDeviceGetAttribute(&value, which, device), "a property of the GPU");
    return value;
  }
  [[nodiscard]] GpuInfo described(Device device) const {
    GpuInfo info;
    std::array<char, 256> text{};
    m_driver->require((*m_driver)->cuDeviceGetName(text.data(), static_cast<int>(text.size() - 1), device), "the GPU's name");
    info.name = printable(text.data());
    text.fill(0);
    m_driver->require((*m_driver)->cuDeviceGetPCIBusId(text.data(), static_cast<int>(text.size() - 1), device), "the GPU's place on the bus");
    info.pci = printable(text.data());
    std::size_t bytes = 0;
    m_driver->require((*m_driver)->cuDeviceTotalMem_v2(&bytes, device), "the GPU's memory");
    info.memory_bytes = bytes;
    info.compute_major = attribute(Attribute::compute_major, device);
    info.compute_minor = attribute(Attribute::compute_minor, device);
    info.multiprocessors = attribute(Attribute::multiprocessors, device);
    info.copy_engines = attribute(Attribute::copy_engines, device);
    return info;
  }

  std::shared_ptr<const DriverLibrary> m_driver = std::make_shared<const DriverLibrary>();
  std::filesystem::path m_kernels;
  std::string m_version;
  std::vector<GpuInfo> m_gpus;
};

}  // namespace

std::unique_ptr<GpuDriver> open_cuda_driver(const std::filesystem::path& kernels) { return std::make_unique<CudaDriver>(kernels); }

}  // namespace dsanalyze
