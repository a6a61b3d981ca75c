#include "driver_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze::cuda {
namespace {

constexpr const char* library_name = "libcuda.so.1";

/// What to do about an answer; empty where only the driver knows.
std::string remedy(Result result) {
  switch (result) {
    case Answer::out_of_memory:
      return "use smaller batches, or end what else holds the GPU's memory (nvidia-smi lists it)";
    case Answer::stub_library:
      return "the library is the toolkit's stub: take its folder out of LD_LIBRARY_PATH, so that the driver's own is found";
    case Answer::no_device:
      return "no GPU is shown to this process: look at CUDA_VISIBLE_DEVICES, and in a container at its devices (docker run --gpus all); `dsanalyze "
             "doctor` says more";
    case Answer::no_binary_for_gpu:
      return "this program's kernels run on GPUs of compute capability 7.5 and newer";
    case Answer::unsupported_ptx_version:
    case Answer::invalid_image:
      return "the driver is older than the toolkit that this program's kernels were built with: install a newer driver";
    case Answer::device_unavailable:
      return "another process holds the GPU for itself (nvidia-smi -q -d COMPUTE shows the mode)";
    case Answer::ecc_uncorrectable:
      return "the GPU's memory has an error that cannot be corrected: reset it or restart the machine, and look at nvidia-smi -q -d ECC";
    case Answer::launch_failed:
    case Answer::unknown:
      return "the GPU was lost: dmesg has the driver's message (Xid), and it may need a reset";
    case Answer::system_driver_mismatch:
      return "the driver's library and its kernel module are of different versions: restart the machine, or install both from one package";
    default:
      return {};
  }
}

std::string described(const DriverFunctions& functions, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions.cuGetErrorName(result, &name) != Answer::success || name == nullptr) return fmt::format("answer {}", result);
  if (functions.cuGetErrorString(result, &text) != Answer::success || text == nullptr) return name;
  return fmt::format("{} ({})", text, name);
}

std::string with_remedy(const std::string& text, Result result) {
  const std::string what_to_do = remedy(result);
  return what_to_do.empty() ? text : text + "; " + what_to_do;
}

template <typename Member>
void find(void* library, Member& function, const char* name) {
  function = reinterpret_cast<Member>(::dlsym(library, name));
  if (function == nullptr)
    throw UsageError(
        fmt::format("the NVIDIA driver is too old: its {} has no {}; install a driver for CUDA 12 or newer (525 or newer)", library_name, name));
}

}  // namespace

std::string version_text(int version) { return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10); }

DriverLibrary::DriverLibrary() {
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw UsageError(
        fmt::format("there is no NVIDIA driver here ({}); on a machine with a GPU install it, in a container pass the GPU in (docker run --gpus "
                    "all); without a GPU "
                    "pass --accelerator emulated:RATE",
                    printable(::dlerror())));
  }
  DriverFunctions& f = m_functions;
#define FIND(NAME) find(library, f.NAME, #NAME)
  FIND(cuInit);
  FIND(cuDriverGetVersion);
  FIND(cuGetErrorName);
  FIND(cuGetErrorString);
  FIND(cuDeviceGetCount);
  FIND(cuDeviceGet);
  FIND(cuDeviceGetName);
  FIND(cuDeviceTotalMem_v2);
  FIND(cuDeviceGetAttribute);
  FIND(cuDeviceGetPCIBusId);
  FIND(cuDevicePrimaryCtxRetain);
  FIND(cuDevicePrimaryCtxRelease_v2);
  FIND(cuCtxSetCurrent);
  FIND(cuMemAlloc_v2);
  FIND(cuMemFree_v2);
  FIND(cuMemHostRegister_v2);
  FIND(cuMemHostUnregister);
  FIND(cuMemcpyHtoDAsync_v2);
  FIND(cuMemcpyDtoHAsync_v2);
  FIND(cuMemcpyAsync);
  FIND(cuMemcpy2DAsync_v2);
  FIND(cuStreamCreate);
  FIND(cuStreamDestroy_v2);
  FIND(cuStreamWaitEvent);
  FIND(cuStreamQuery);
  FIND(cuEventCreate);
  FIND(cuEventDestroy_v2);
  FIND(cuEventRecord);
  FIND(cuEventQuery);
  FIND(cuEventElapsedTime);
  FIND(cuModuleLoadData);
  FIND(cuModuleUnload);
  FIND(cuModuleGetFunction);
  FIND(cuLaunchKernel);
#undef FIND
  if (const Result result = f.cuInit(0); result != Answer::success)
    throw UsageError(with_remedy(fmt::format("the NVIDIA driver does not start: {}", described(f, result)), result));
  require(f.cuDriverGetVersion(&m_version), "the driver's version");
  int count = 0;
  const Result counted = f.cuDeviceGetCount(&count);
  if (counted == Answer::no_device || (counted == Answer::success && count == 0))
    throw UsageError(with_remedy(fmt::format("the NVIDIA driver ({}) shows no GPU", version_text(m_version)), Answer::no_device));
  require(counted, "the number of GPUs");
}

void DriverLibrary::require(Result result, const std::string& what) const {
  if (result == Answer::success) return;
  const std::string text = with_remedy(fmt::format("{}: {}", what, described(m_functions, result)), result);
  if (result == Answer::out_of_memory) throw NoMemoryError(text);
  throw Error(text);
}

}  // namespace dsanalyze::cuda
