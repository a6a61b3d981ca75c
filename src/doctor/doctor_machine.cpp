#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

constexpr double slow_clock_seconds = 200e-9;  // a look through the vDSO takes 20 to 60 ns, a system call several hundred

/// Display and 3D controllers that NVIDIA made, by what PCI says of them.
int nvidia_devices(const DoctorContext& context) {
  int count = 0;
  for (const std::string& name : context.names_in("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + name;
    if (context.read(folder + "/vendor").text != "0x10de") continue;
    count += context.read(folder + "/class").text.value_or("").starts_with("0x03") ? 1 : 0;
  }
  return count;
}

bool is_gpu_node(const std::string& name) {
  constexpr std::string_view stem = "nvidia";
  return name.starts_with(stem) && name.size() > stem.size() &&
         std::ranges::all_of(name.substr(stem.size()), [](char c) { return c >= '0' && c <= '9'; });
}

/// What to do, or that nothing is to be done.
std::string without_gpu(AcceleratorKind accelerator) {
  if (accelerator == AcceleratorKind::cpu) return "The CPU trains, as asked.";
  if (accelerator == AcceleratorKind::cuda) return "--accelerator cuda:RATE copies batches to a GPU: pass --accelerator emulated:RATE without one.";
  if (accelerator == AcceleratorKind::pytorch) return "PyTorch uses what it finds: --accelerator pytorch:cuda refuses the CPU.";
  if (accelerator != AcceleratorKind::none) return "The accelerator is emulated, as asked.";
  return "Measure G where you train (--accelerator pytorch), or pass --accelerator emulated:RATE.";
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  ..." -> 535.54.03; the first word that begins with a digit.
std::string driver_version(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;)
    if (word.front() >= '0' && word.front() <= '9') return printable(word);
  return "of unknown version";
}

}  // namespace

std::optional<DoctorAnswer> look_at_gpu(const DoctorContext& context) {
  const KernelText driver = context.read("/proc/driver/nvidia/version");
  std::vector<std::string> nodes;
  std::ranges::copy_if(context.names_in("/dev"), std::back_inserter(nodes), is_gpu_node);
  const int on_bus = nvidia_devices(context);
  const std::string ask = without_gpu(context.inputs.settings.accelerator);
  if (!driver.text) {
    if (on_bus == 0 && nodes.empty() && !std::filesystem::exists(context.place("/sys/bus/pci/devices")))
      return not_known("the kernel shows neither a PCI bus nor an NVIDIA driver");
    if (on_bus == 0 && nodes.empty()) return DoctorAnswer{DoctorStatus::note, "none of NVIDIA's, and no driver of theirs", ask, {}};
    if (on_bus == 0) return not_known(fmt::format("/dev/{} is there, yet the kernel shows neither a GPU on the bus nor a driver", nodes.front()));
    DoctorAnswer answer{DoctorStatus::warning, fmt::format("{} of NVIDIA's on the bus, without a driver", on_bus), "Install the driver:", {}};
    answer.commands = {context.as_root("apt install nvidia-driver")};
    return answer;
  }
  const std::string version = driver_version(*driver.text);
  if (nodes.empty()) {
    DoctorAnswer answer{DoctorStatus::warning, fmt::format("driver {}, and no /dev/nvidia0: this process sees no GPU", version), "Hand it in:", {}};
    answer.commands = context.launch("--gpus all", "resources: {limits: {nvidia.com/gpu: 1}}");
    if (!context.in_container()) {
      answer.fix = "Make the device nodes:";
      answer.commands = {context.as_root("nvidia-modprobe -u -c=0")};
    }
    return answer;
  }
  for (const std::string& node : {std::string("nvidiactl"), nodes.front()}) {
    const auto attempt = context.system.open_device(context.place("/dev/" + node));
    if (attempt.done) continue;
    DoctorAnswer answer{DoctorStatus::warning,
                        fmt::format("driver {}, but /dev/{} cannot be opened: {}", version, node, describe_errno(attempt.error)),
                        "Give this user the devices:",
                        {}};
    answer.commands = context.launch("--gpus all", "resources: {limits: {nvidia.com/gpu: 1}}");
    if (!context.in_container()) answer.commands = {{DoctorCommand::Where::here, "sudo usermod -aG video \"$USER\"  # then log in anew"}};
    return answer;
  }
  const char* const hidden = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string_view visible = hidden != nullptr ? hidden : "0";
  if (visible.empty() || visible.starts_with("-1"))
    return DoctorAnswer{
        DoctorStatus::warning,
        fmt::format("{} with driver {}, all hidden from CUDA: CUDA_VISIBLE_DEVICES={}", nodes.size(), version, shell_word(std::string(visible))),
        "Show them to what this shell starts:",
        {{DoctorCommand::Where::here, "unset CUDA_VISIBLE_DEVICES"}}};
  const std::string hides = hidden != nullptr ? fmt::format("; CUDA_VISIBLE_DEVICES={}", shell_word(hidden)) : "";
  return fine(fmt::format("{} with driver {}{}", nodes.size(), version, hides));
}

std::optional<DoctorAnswer> look_at_clock(const DoctorContext& context) {
  const std::string folder = "/sys/devices/system/clocksource/clocksource0/";
  const double seconds = context.system.clock_seconds();
  const KernelText source = context.read(folder + "current_clocksource");
  const std::string cost = fmt::format("a look at the clock takes {:.0f} ns", seconds * 1e9);
  const std::string found = source.text ? fmt::format("{}; {}", printable(*source.text), cost) : cost;
  constexpr std::array slow_sources{"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
  const bool slow_source = source.text && std::ranges::find(slow_sources, *source.text) != slow_sources.end();
  if (!slow_source && seconds < slow_clock_seconds) {
    if (!source.text) return not_known(fmt::format("{}; {}", source.reason, cost));
    return fine(found);
  }
  DoctorAnswer answer{DoctorStatus::warning, found, {}, {}};
  const std::string choices = " " + context.read(folder + "available_clocksource").text.value_or("") + " ";
  if (source.text != "tsc" && choices.find(" tsc ") != std::string::npos) {
    answer.fix = "Take the processor's own counter:";
    answer.commands = {context.write_file("tsc", folder + "current_clocksource")};
  } else {
    answer.fix =
        "The kernel does not offer the processor's counter (tsc): it found it unsteady, or the hypervisor hides it. Look at what it says (dmesg), "
        "and ask the "
        "host for an invariant one:";
    answer.commands = {context.as_root("dmesg | grep -iE 'tsc|clocksource'")};
  }
  return answer;
}

}  // namespace dsanalyze
