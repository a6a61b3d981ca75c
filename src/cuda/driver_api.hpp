#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace dsanalyze::cuda {

// What of NVIDIA's driver API (libcuda.so.1) the program calls. The library comes with the driver and is opened when it is asked for; the
// declarations here stand for cuda.h, so that no toolkit is needed to build the program. A test compares both where there is a toolkit.

using Result = int;
using Device = int;
using DevicePointer = std::uint64_t;
using Context = struct ContextOfDriver*;
using Stream = struct StreamOfDriver*;
using Event = struct EventOfDriver*;
using Module = struct ModuleOfDriver*;
using Function = struct FunctionOfDriver*;

/// Answers that are told apart; every other one is named by the driver itself.
struct Answer {
  static constexpr Result success = 0;
  static constexpr Result out_of_memory = 2;
  static constexpr Result stub_library = 34;
  static constexpr Result no_device = 100;
  static constexpr Result no_binary_for_gpu = 209;
  static constexpr Result ecc_uncorrectable = 214;
  static constexpr Result unsupported_ptx_version = 222;
  static constexpr Result invalid_image = 200;
  static constexpr Result device_unavailable = 46;
  static constexpr Result not_ready = 600;
  static constexpr Result already_registered = 712;
  static constexpr Result launch_failed = 719;
  static constexpr Result not_supported = 801;
  static constexpr Result system_driver_mismatch = 803;
  static constexpr Result unknown = 999;
};

struct Attribute {
  static constexpr int multiprocessors = 16;
  static constexpr int copy_engines = 40;
  static constexpr int compute_major = 75;
  static constexpr int compute_minor = 76;
};

constexpr unsigned stream_non_blocking = 1;

/// CUDA_MEMCPY2D.
struct Copy2D {
  std::size_t from_x = 0;
  std::size_t from_y = 0;
  unsigned from_type = 0;
  const void* from_host = nullptr;
  DevicePointer from_device = 0;
  void* from_array = nullptr;
  std::size_t from_pitch = 0;
  std::size_t to_x = 0;
  std::size_t to_y = 0;
  unsigned to_type = 0;
  void* to_host = nullptr;
  DevicePointer to_device = 0;
  void* to_array = nullptr;
  std::size_t to_pitch = 0;
  std::size_t width = 0;
  std::size_t height = 0;
};
constexpr unsigned memory_of_host = 1;
constexpr unsigned memory_of_device = 2;

/// The functions, by the names that the library exports.
struct DriverFunctions {
  Result (*cuInit)(unsigned flags);
  Result (*cuDriverGetVersion)(int* version);
  Result (*cuGetErrorName)(Result result, const char** name);
  Result (*cuGetErrorString)(Result result, const char** text);
  Result (*cuDeviceGetCount)(int* count);
  Result (*cuDeviceGet)(Device* device, int number);
  Result (*cuDeviceGetName)(char* name, int size, Device device);
  Result (*cuDeviceTotalMem_v2)(std::size_t* bytes, Device device);
  Result (*cuDeviceGetAttribute)(int* value, int attribute, Device device);
  Result (*cuDeviceGetPCIBusId)(char* id, int size, Device device);
  Result (*cuDevicePrimaryCtxRetain)(Context* context, Device device);
  Result (*cuDevicePrimaryCtxRelease_v2)(Device device);
  Result (*cuCtxSetCurrent)(Context context);
  Result (*cuMemAlloc_v2)(DevicePointer* pointer, std::size_t bytes);
  Result (*cuMemFree_v2)(DevicePointer pointer);
  Result (*cuMemHostRegister_v2)(void* memory, std::size_t bytes, unsigned flags);
  Result (*cuMemHostUnregister)(void* memory);
  Result (*cuMemcpyHtoDAsync_v2)(DevicePointer to, const void* from, std::size_t bytes, Stream stream);
  Result (*cuMemcpyDtoHAsync_v2)(void* to, DevicePointer from, std::size_t bytes, Stream stream);
  Result (*cuMemcpyAsync)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream);
  Result (*cuMemcpy2DAsync_v2)(const Copy2D* copy, Stream stream);
  Result (*cuStreamCreate)(Stream* stream, unsigned flags);
  Result (*cuStreamDestroy_v2)(Stream stream);
  Result (*cuStreamWaitEvent)(Stream stream, Event event, unsigned flags);
  Result (*cuStreamQuery)(Stream stream);
  Result (*cuEventCreate)(Event* event, unsigned flags);
  Result (*cuEventDestroy_v2)(Event event);
  Result (*cuEventRecord)(Event event, Stream stream);
  Result (*cuEventQuery)(Event event);
  Result (*cuEventElapsedTime)(float* milliseconds, Event from, Event to);
  Result (*cuModuleLoadData)(Module* module, const void* image);
  Result (*cuModuleUnload)(Module module);
  Result (*cuModuleGetFunction)(Function* function, Module module, const char* name);
  Result (*cuLaunchKernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, Stream stream, void** arguments, void** extra);
};

/// The driver's library, opened and initialised. Not closed again: it leaves threads of its own.
class DriverLibrary {
 public:
  /// Throws UsageError where there is no driver, no device or one that this process may not use: says which, and what to do.
  DriverLibrary();
  const DriverFunctions* operator->() const { return &m_functions; }
  [[nodiscard]] int version() const { return m_version; }  ///< 13000: CUDA 13.0
  /// Throws Error for what the driver answered, NoMemoryError for too little memory: "WHAT: out of memory (CUDA_ERROR_OUT_OF_MEMORY); REMEDY".
  void require(Result result, const std::string& what) const;

 private:
  DriverFunctions m_functions{};
  int m_version = 0;
};

/// "CUDA 13.0"
std::string version_text(int version);

}  // namespace dsanalyze::cuda
