#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <memory>
#include <sstream>

#include "base/text/text.hpp"
#include "gpu_state.hpp"

namespace dsanalyze {
namespace {

// Of nvml.h, whose ABI does not change within a version of a function; the library is opened by name, so that the program needs no toolkit.
using Answer = int;
constexpr Answer success = 0;
constexpr Answer driver_not_loaded = 9;
constexpr Answer no_permission = 4;
using Device = struct DeviceOfNvml*;
constexpr int uncorrected_errors = 1;
constexpr int since_driver_loaded = 0;

struct PciInfo {
  std::array<char, 16> legacy_id{};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned device_id = 0;
  unsigned subsystem_id = 0;
  std::array<char, 32> id{};
};
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long memory_bytes = 0;
  unsigned instance = 0;
  unsigned compute_instance = 0;
};
struct Utilization {
  unsigned gpu = 0;  // percent of the time
  unsigned memory = 0;
};

/// The library, started; ended with this.
class Nvml {
 public:
  Nvml() : m_library(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (m_library == nullptr) return;
    const auto start = function<Answer()>("nvmlInit_v2");
    m_answer = start == nullptr ? -1 : start();
    m_started = m_answer == success;
  }
  ~Nvml() {
    if (m_started)
      if (const auto end = function<Answer()>("nvmlShutdown")) end();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] bool there() const { return m_library != nullptr; }
  [[nodiscard]] bool started() const { return m_started; }
  [[nodiscard]] Answer answer() const { return m_answer; }
  template <typename Signature>
  [[nodiscard]] Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(::dlsym(m_library, name));
  }
  /// What a function of a device and of the place for its answer says; nullopt where the library or the GPU does not know it.
  template <typename Value>
  [[nodiscard]] std::optional<Value> value(const char* name, Device device) const {
    const auto ask = function<Answer(Device, Value*)>(name);
    Value value{};
    if (ask == nullptr || ask(device, &value) != success) return std::nullopt;
    return value;
  }

 private:
  void* m_library;
  Answer m_answer = 0;
  bool m_started = false;
};

std::string name_of(const Nvml& nvml, Device device) {
  std::array<char, 96> text{};
  const auto ask = nvml.function<Answer(Device, char*, unsigned)>("nvmlDeviceGetName");
  if (ask == nullptr || ask(device, text.data(), static_cast<unsigned>(text.size() - 1)) != success) return "GPU";
  return printable(text.data());
}

/// "00000000:3B:00.0" as the kernel writes it: "0000:3b:00.0".
std::string pci_of(const Nvml& nvml, Device device) {
  const auto info = nvml.value<PciInfo>("nvmlDeviceGetPciInfo_v3", device);
  return info ? fmt::format("{:04x}:{:02x}:{:02x}.0", info->domain, info->bus, info->device) : "";
}

std::optional<std::uint64_t> memory_errors_of(const Nvml& nvml, Device device) {
  const auto ask = nvml.function<Answer(Device, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  unsigned long long count = 0;
  if (ask == nullptr || ask(device, uncorrected_errors, since_driver_loaded, &count) != success) return std::nullopt;
  return count;
}

std::optional<bool> divided(const Nvml& nvml, Device device) {
  const auto ask = nvml.function<Answer(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode");
  unsigned now = 0;
  unsigned later = 0;
  if (ask == nullptr || ask(device, &now, &later) != success) return std::nullopt;
  return now != 0;
}

std::vector<GpuState::Process> processes_of(const Nvml& nvml, Device device) {
  constexpr unsigned most = 64;
  const auto ask = nvml.function<Answer(Device, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3");
  std::array<ProcessInfo, most> found{};
  unsigned count = most;
  if (ask == nullptr || ask(device, &count, found.data()) != success) return {};
  std::vector<GpuState::Process> processes;
  for (const ProcessInfo& process : std::span(found).first(std::min(count, most)))
    processes.push_back({process.pid, process.memory_bytes == ~0ULL ? 0 : process.memory_bytes});
  return processes;
}

GpuState state_of(const Nvml& nvml, Device device) {
  GpuState state;
  state.name = name_of(nvml, device);
  state.pci = pci_of(nvml, device);
  state.link_generation_most = nvml.value<unsigned>("nvmlDeviceGetMaxPcieLinkGeneration", device);
  state.link_generation_of_gpu = nvml.value<unsigned>("nvmlDeviceGetGpuMaxPcieLinkGeneration", device);
  state.link_width = nvml.value<unsigned>("nvmlDeviceGetCurrPcieLinkWidth", device);
  state.link_width_most = nvml.value<unsigned>("nvmlDeviceGetMaxPcieLinkWidth", device);
  state.held_back_by = nvml.value<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons", device);
  state.memory_errors = memory_errors_of(nvml, device);
  state.divided = divided(nvml, device);
  state.processes = processes_of(nvml, device);
  return state;
}

}  // namespace

GpuStates ask_nvml() {
  const Nvml nvml;
  GpuStates states;
  if (!nvml.there()) return states;
  if (!nvml.started()) {
    if (nvml.answer() != driver_not_loaded)
      states.why_none = fmt::format("NVIDIA's management library does not start (answer {}{})", nvml.answer(),
                                    nvml.answer() == no_permission ? ": no permission" : "");
    return states;
  }
  const auto count_of = nvml.function<Answer(unsigned*)>("nvmlDeviceGetCount_v2");
  const auto handle_of = nvml.function<Answer(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
  unsigned count = 0;
  if (count_of == nullptr || handle_of == nullptr || count_of(&count) != success) {
    states.why_none = "NVIDIA's management library does not tell which GPUs there are";
    return states;
  }
  for (unsigned number = 0; number < count; ++number) {
    Device device = nullptr;
    if (handle_of(number, &device) == success) states.gpus.push_back(state_of(nvml, device));
  }
  return states;
}

std::function<std::optional<double>(const std::string& uuids)> gpu_use() {
  return [nvml = std::shared_ptr<Nvml>()](const std::string& uuids) mutable -> std::optional<double> {
    if (!nvml) nvml = std::make_shared<Nvml>();
    if (!nvml->started()) return std::nullopt;
    const auto handle_of = nvml->function<Answer(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
    if (handle_of == nullptr) return std::nullopt;
    double sum = 0;
    double count = 0;
    std::istringstream names(uuids);
    for (std::string name; std::getline(names, name, ','); ++count) {
      Device device = nullptr;
      if (handle_of(name.c_str(), &device) != success) return std::nullopt;
      const auto use = nvml->value<Utilization>("nvmlDeviceGetUtilizationRates", device);
      if (!use) return std::nullopt;
      sum += use->gpu / 100.0;
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
  };
}

}  // namespace dsanalyze
