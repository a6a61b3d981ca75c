// A driver library without a GPU: libcuda.so.1 as the program opens it, with the functions that it calls. "Device memory" is memory of the process,
// streams and events have times of the monotonic clock, copies share one bus a device, and the kernels are what they do in C++. What it is to show or
// to answer is in $FAKE_CUDA, read by cuInit(): "devices=2,memory=1000000000,bus=10e9,version=13000,init=100,image=222,lost_after=50". What the
// program did not give back is counted by fake_cuda_held().

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "crop_on_cpu.hpp"
#include "cuda/driver_api.hpp"

namespace {

using namespace dsanalyze::cuda;

constexpr Result invalid_value = 1;
constexpr Result invalid_context = 201;
constexpr Result not_registered = 713;
constexpr int multiprocessors = 4;  // of each GPU

std::int64_t now() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000 + at.tv_nsec;
}

struct FakeGpu {
  std::int64_t bus_free_at = 0;
  std::size_t held = 0;  // bytes
};

struct Driver {
  std::mutex mutex;
  std::map<std::string, double> settings;
  std::vector<FakeGpu> gpus;
  std::map<DevicePointer, std::pair<std::size_t, int>> memory;  // bytes, GPU
  std::map<const void*, std::size_t> registered;
  std::set<const void*> streams, events, modules;
  int contexts = 0;
  int launches = 0;
  Result lost = Answer::success;

  double setting(const char* name, double otherwise) const {
    const auto found = settings.find(name);
    return found == settings.end() ? otherwise : found->second;
  }
};

Driver& driver() {
  static Driver the_driver;
  return the_driver;
}

thread_local int current = -1;

struct FakeStream {
  int gpu;
  std::int64_t free_at;
};
struct FakeEvent {
  std::int64_t at;
};

FakeStream& stream_of(Stream stream) { return *reinterpret_cast<FakeStream*>(stream); }
FakeEvent& event_of(Event event) { return *reinterpret_cast<FakeEvent*>(event); }

Result ready() {
  if (driver().lost != Answer::success) return driver().lost;
  return current < 0 ? invalid_context : Answer::success;
}

/// Time of a copy on the stream and on its GPU's bus.
void copied(Stream stream, std::size_t bytes, const void* host) {
  Driver& d = driver();
  FakeStream& on = stream_of(stream);
  FakeGpu& gpu = d.gpus[static_cast<std::size_t>(on.gpu)];
  bool pinned = host == nullptr;
  for (const auto& [begin, size] : d.registered)
    pinned = pinned || (host >= begin && static_cast<const std::byte*>(host) < static_cast<const std::byte*>(begin) + size);
  const double rate = d.setting("bus", 10e9) / (pinned ? 1 : 2);
  const std::int64_t begin = std::max({now(), on.free_at, gpu.bus_free_at});
  on.free_at = gpu.bus_free_at = begin + static_cast<std::int64_t>(static_cast<double>(bytes) / rate * 1e9);
}

bool on_device(DevicePointer at, std::size_t bytes) {
  auto found = driver().memory.upper_bound(at);
  if (found == driver().memory.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second.first;
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

/// Contexts, streams, events, modules, registrations and allocations that are not given back.
EXPORT int fake_cuda_held() {
  const std::lock_guard lock(driver().mutex);
  const Driver& d = driver();
  return d.contexts + static_cast<int>(d.streams.size() + d.events.size() + d.modules.size() + d.registered.size() + d.memory.size());
}

EXPORT Result cuInit(unsigned) {
  const std::lock_guard lock(driver().mutex);
  Driver& d = driver();
  d.settings.clear();
  const char* const text = std::getenv("FAKE_CUDA");
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string item = rest.substr(0, rest.find(','));
    rest.erase(0, item.size() + 1);
    const std::size_t equal = item.find('=');
    d.settings[item.substr(0, equal)] = std::strtod(item.c_str() + equal + 1, nullptr);
  }
  d.gpus.resize(static_cast<std::size_t>(d.setting("devices", 1)));
  d.lost = Answer::success;
  d.launches = 0;
  return static_cast<Result>(d.setting("init", 0));
}
EXPORT Result cuDriverGetVersion(int* version) {
  *version = static_cast<int>(driver().setting("version", 13000));
  return Answer::success;
}
EXPORT Result cuGetErrorName(Result result, const char** name) {
  static const std::map<Result, const char*> names{{2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {34, "CUDA_ERROR_STUB_LIBRARY"},
                                                   {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                   {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                                                   {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                                   {999, "CUDA_ERROR_UNKNOWN"}};
  const auto found = names.find(result);
  if (found == names.end()) return invalid_value;
  *name = found->second;
  return Answer::success;
}
EXPORT Result cuGetErrorString(Result, const char** text) {
  *text = "as the fake driver was told";
  return Answer::success;
}
EXPORT Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(driver().gpus.size());
  return static_cast<Result>(driver().setting("count", 0));
}
EXPORT Result cuDeviceGet(Device* device, int number) {
  *device = number;
  return number < static_cast<int>(driver().gpus.size()) ? Answer::success : invalid_value;
}
EXPORT Result cuDeviceGetName(char* name, int size, Device device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return Answer::success;
}
EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = static_cast<std::size_t>(driver().setting("memory", 1e9));
  return Answer::success;
}
EXPORT Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == Attribute::compute_major     ? 9
           : attribute == Attribute::multiprocessors ? multiprocessors
           : attribute == Attribute::copy_engines    ? 3
                                                     : 0;
  return Answer::success;
}
EXPORT Result cuDeviceGetPCIBusId(char* id, int size, Device device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return Answer::success;
}
EXPORT Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  const std::lock_guard lock(driver().mutex);
  if (const auto answer = static_cast<Result>(driver().setting("retain", 0)); answer != Answer::success) return answer;
  ++driver().contexts;
  *context = reinterpret_cast<Context>(static_cast<std::intptr_t>(device) + 1);
  return Answer::success;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(Device) {
  const std::lock_guard lock(driver().mutex);
  --driver().contexts;
  return Answer::success;
}
EXPORT Result cuCtxSetCurrent(Context context) {
  current = static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1;
  return Answer::success;
}
EXPORT Result cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  FakeGpu& gpu = driver().gpus[static_cast<std::size_t>(current)];
  if (bytes == 0) return invalid_value;
  if (static_cast<double>(gpu.held + bytes) > driver().setting("memory", 1e9)) return Answer::out_of_memory;
  void* const memory = std::calloc(bytes, 1);
  *pointer = reinterpret_cast<DevicePointer>(memory);
  driver().memory[*pointer] = {bytes, current};
  gpu.held += bytes;
  return Answer::success;
}
EXPORT Result cuMemFree_v2(DevicePointer pointer) {
  const std::lock_guard lock(driver().mutex);
  const auto found = driver().memory.find(pointer);
  if (found == driver().memory.end()) return invalid_value;
  driver().gpus[static_cast<std::size_t>(found->second.second)].held -= found->second.first;
  driver().memory.erase(found);
  std::free(reinterpret_cast<void*>(pointer));
  return Answer::success;
}
EXPORT Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  return driver().registered.emplace(memory, bytes).second ? Answer::success : Answer::already_registered;
}
EXPORT Result cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(driver().mutex);
  return driver().registered.erase(memory) == 1 ? Answer::success : not_registered;
}
EXPORT Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  if (!on_device(to, bytes)) return invalid_value;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  copied(stream, bytes, from);
  return Answer::success;
}
EXPORT Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  if (!on_device(from, bytes)) return invalid_value;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  copied(stream, bytes, to);
  return Answer::success;
}
EXPORT Result cuMemcpyAsync(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  if (!on_device(to, bytes) || !on_device(from, bytes)) return invalid_value;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  copied(stream, bytes, nullptr);
  return Answer::success;
}
EXPORT Result cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  if (copy->from_type != memory_of_host || copy->to_type != memory_of_device || copy->width > copy->from_pitch || copy->width > copy->to_pitch)
    return invalid_value;
  for (std::size_t row = 0; row < copy->height; ++row) {
    const DevicePointer to = copy->to_device + row * copy->to_pitch;
    if (!on_device(to, copy->width)) return invalid_value;
    std::memcpy(reinterpret_cast<void*>(to), static_cast<const std::byte*>(copy->from_host) + row * copy->from_pitch, copy->width);
  }
  copied(stream, copy->width * copy->height, copy->from_host);
  return Answer::success;
}
EXPORT Result cuStreamCreate(Stream* stream, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  *stream = reinterpret_cast<Stream>(new FakeStream{current, 0});
  driver().streams.insert(*stream);
  return Answer::success;
}
EXPORT Result cuStreamDestroy_v2(Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (driver().streams.erase(stream) == 0) return invalid_value;
  delete &stream_of(stream);
  return Answer::success;
}
EXPORT Result cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  const std::lock_guard lock(driver().mutex);
  stream_of(stream).free_at = std::max(stream_of(stream).free_at, event_of(event).at);
  return ready();
}
EXPORT Result cuStreamQuery(Stream stream) {
  const std::lock_guard lock(driver().mutex);
  if (driver().lost != Answer::success) return driver().lost;
  return now() >= stream_of(stream).free_at ? Answer::success : Answer::not_ready;
}
EXPORT Result cuEventCreate(Event* event, unsigned) {
  const std::lock_guard lock(driver().mutex);
  if (const Result result = ready(); result != Answer::success) return result;
  *event = reinterpret_cast<Event>(new FakeEvent{0});
  driver().events.insert(*event);
  return Answer::success;
}
EXPORT Result cuEventDestroy_v2(Event event) {
  const std::lock_guard lock(driver().mutex);
  if (driver().events.erase(event) == 0) return invalid_value;
  delete &event_of(event);
  return Answer::success;
}
EXPORT Result cuEventRecord(Event event, Stream stream) {
  const std::lock_guard lock(driver().mutex);
  event_of(event).at = std::max(now(), stream_of(stream).free_at);
  return ready();
}
EXPORT Result cuEventQuery(Event event) {
  const std::lock_guard lock(driver().mutex);
  if (driver().lost != Answer::success) return driver().lost;
  return now() >= event_of(event).at ? Answer::success : Answer::not_ready;
}
EXPORT Result cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  const std::lock_guard lock(driver().mutex);
  if (now() < event_of(from).at || now() < event_of(to).at) return Answer::not_ready;
  *milliseconds = static_cast<float>(static_cast<double>(event_of(to).at - event_of(from).at) * 1e-6);
  return Answer::success;
}
EXPORT Result cuModuleLoadData(Module* module, const void* image) {
  const std::lock_guard lock(driver().mutex);
  if (const auto answer = static_cast<Result>(driver().setting("image", 0)); answer != Answer::success) return answer;
  if (image == nullptr) return Answer::invalid_image;
  *module = reinterpret_cast<Module>(new int(0));
  driver().modules.insert(*module);
  return ready();
}
EXPORT Result cuModuleUnload(Module module) {
  const std::lock_guard lock(driver().mutex);
  if (driver().modules.erase(module) == 0) return invalid_value;
  delete reinterpret_cast<int*>(module);
  return Answer::success;
}
EXPORT Result cuModuleGetFunction(Function* function, Module, const char* name) {
  *function = reinterpret_cast<Function>(const_cast<char*>(name));
  return Answer::success;
}
EXPORT Result cuLaunchKernel(Function function, unsigned blocks, unsigned rows_of_blocks, unsigned layers_of_blocks, unsigned threads,
                             unsigned rows_of_threads, unsigned layers_of_threads, unsigned, Stream stream, void** arguments, void**) {
  std::unique_lock lock(driver().mutex);
  Driver& d = driver();
  if (const Result result = ready(); result != Answer::success) return result;
  if (const double after = d.setting("lost_after", -1); after >= 0 && ++d.launches > after) {
    d.lost = Answer::launch_failed;  // told by whatever is asked next, as by a real one
    return Answer::success;
  }
  if (std::strcmp(reinterpret_cast<const char*>(function), "dsanalyze_crop") == 0) {
    const DevicePointer crops = *static_cast<DevicePointer*>(arguments[0]);
    const auto& output = *static_cast<const dsanalyze::GpuCropOutput*>(arguments[1]);
    if (threads != dsanalyze::gpu_crop_tile_columns || rows_of_threads != dsanalyze::gpu_crop_tile_rows || layers_of_threads != 1 ||
        blocks * threads < static_cast<unsigned>(output.size) || rows_of_blocks * rows_of_threads < static_cast<unsigned>(output.size) ||
        !on_device(crops, layers_of_blocks * sizeof(dsanalyze::GpuCrop)))
      return invalid_value;
    lock.unlock();  // other streams go on meanwhile
    for (unsigned sample = 0; sample < layers_of_blocks; ++sample)
      dsanalyze::crop_on_cpu(reinterpret_cast<const dsanalyze::GpuCrop*>(crops)[sample], output);
    return Answer::success;
  }
  if (std::strcmp(reinterpret_cast<const char*>(function), "dsanalyze_occupy") != 0) return invalid_value;
  // Its blocks and threads are counted along one axis, and no multiprocessor has two.
  if (blocks != static_cast<unsigned>(multiprocessors) || rows_of_blocks * layers_of_blocks * rows_of_threads * layers_of_threads != 1 ||
      threads == 0)
    return invalid_value;
  const std::uint64_t nanoseconds = *static_cast<std::uint64_t*>(arguments[0]);
  const DevicePointer address = *static_cast<DevicePointer*>(arguments[1]);
  const std::uint64_t words = *static_cast<std::uint64_t*>(arguments[2]);
  if (words > 0 && !on_device(address, words * 16)) return invalid_value;
  FakeStream& on = stream_of(stream);
  on.free_at = std::max(now(), on.free_at) + static_cast<std::int64_t>(nanoseconds);
  return Answer::success;
}
}
