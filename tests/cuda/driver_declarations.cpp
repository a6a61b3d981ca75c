// cuda/driver_api.hpp stands for the toolkit's cuda.h: this file does not compile where the two differ.

#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "cuda/driver_api.hpp"

namespace dsanalyze::cuda {
namespace {

static_assert(sizeof(Result) == sizeof(CUresult));
static_assert(sizeof(Device) == sizeof(CUdevice));
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(Context) == sizeof(CUcontext));

static_assert(Answer::success == CUDA_SUCCESS);
static_assert(Answer::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(Answer::stub_library == CUDA_ERROR_STUB_LIBRARY);
static_assert(Answer::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(Answer::no_binary_for_gpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(Answer::ecc_uncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(Answer::unsupported_ptx_version == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(Answer::invalid_image == CUDA_ERROR_INVALID_IMAGE);
static_assert(Answer::device_unavailable == CUDA_ERROR_DEVICE_UNAVAILABLE);
static_assert(Answer::not_ready == CUDA_ERROR_NOT_READY);
static_assert(Answer::already_registered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(Answer::launch_failed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(Answer::system_driver_mismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(Answer::unknown == CUDA_ERROR_UNKNOWN);

static_assert(Attribute::multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(Attribute::copy_engines == CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
static_assert(Attribute::compute_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(Attribute::compute_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(memory_of_host == CU_MEMORYTYPE_HOST);
static_assert(memory_of_device == CU_MEMORYTYPE_DEVICE);

static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy2D, from_host) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(Copy2D, from_device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(Copy2D, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(Copy2D, to_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(Copy2D, to_device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Copy2D, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(Copy2D, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(offsetof(Copy2D, height) == offsetof(CUDA_MEMCPY2D, Height));

/// How a declaration of ours writes a type of the toolkit's.
template <typename Type>
struct Ours {
  using type = Type;
};
template <>
struct Ours<CUresult> {
  using type = Result;
};
template <>
struct Ours<CUdevice_attribute> {
  using type = int;
};
template <>
struct Ours<CUcontext> {
  using type = Context;
};
template <>
struct Ours<CUstream> {
  using type = Stream;
};
template <>
struct Ours<CUevent> {
  using type = Event;
};
template <>
struct Ours<CUmodule> {
  using type = Module;
};
template <>
struct Ours<CUfunction> {
  using type = Function;
};
template <>
struct Ours<const CUDA_MEMCPY2D*> {
  using type = const Copy2D*;
};
template <typename Type>
requires(std::is_same_v<Type, CUcontext*> || std::is_same_v<Type, CUstream*> || std::is_same_v<Type, CUevent*> || std::is_same_v<Type, CUmodule*> ||
         std::is_same_v<Type, CUfunction*>) struct Ours<Type> {
  using type = typename Ours<std::remove_pointer_t<Type>>::type*;
};
template <typename Answered, typename... Arguments>
struct Ours<Answered (*)(Arguments...)> {
  using type = typename Ours<Answered>::type (*)(typename Ours<Arguments>::type...);
};

// The toolkit's names are macros that lead to the newest version of a function; the table names the version itself.
#define SAME(MEMBER, NAME) static_assert(std::is_same_v<decltype(DriverFunctions::MEMBER), Ours<decltype(&NAME)>::type>)
SAME(cuInit, cuInit);
SAME(cuDriverGetVersion, cuDriverGetVersion);
SAME(cuGetErrorName, cuGetErrorName);
SAME(cuGetErrorString, cuGetErrorString);
SAME(cuDeviceGetCount, cuDeviceGetCount);
SAME(cuDeviceGet, cuDeviceGet);
SAME(cuDeviceGetName, cuDeviceGetName);
SAME(cuDeviceTotalMem_v2, cuDeviceTotalMem);
SAME(cuDeviceGetAttribute, cuDeviceGetAttribute);
SAME(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId);
SAME(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
SAME(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease);
SAME(cuCtxSetCurrent, cuCtxSetCurrent);
SAME(cuMemHostRegister_v2, cuMemHostRegister);
SAME(cuMemHostUnregister, cuMemHostUnregister);
SAME(cuMemcpy2DAsync_v2, cuMemcpy2DAsync);
SAME(cuStreamCreate, cuStreamCreate);
SAME(cuStreamDestroy_v2, cuStreamDestroy);
SAME(cuStreamWaitEvent, cuStreamWaitEvent);
SAME(cuStreamQuery, cuStreamQuery);
SAME(cuEventCreate, cuEventCreate);
SAME(cuEventDestroy_v2, cuEventDestroy);
SAME(cuEventRecord, cuEventRecord);
SAME(cuEventQuery, cuEventQuery);
SAME(cuEventElapsedTime, cuEventElapsedTime);
SAME(cuModuleLoadData, cuModuleLoadData);
SAME(cuModuleUnload, cuModuleUnload);
SAME(cuModuleGetFunction, cuModuleGetFunction);
SAME(cuLaunchKernel, cuLaunchKernel);
#undef SAME

}  // namespace
}  // namespace dsanalyze::cuda
