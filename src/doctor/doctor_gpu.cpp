#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/text/text.hpp"
#include "base/text/units.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

/// The first of them that something is said of.
const GpuState& first_of(const std::vector<GpuState>& gpus, const std::function<std::string(const GpuState&)>& said) {
  return *std::ranges::find_if(gpus, [&](const GpuState& gpu) { return !said(gpu).empty(); });
}

/// What is said of each GPU that has something to say, in one line: "H200 (0000:3b:00.0): 8 lanes of 16".
std::string of_each(const std::vector<GpuState>& gpus, const std::function<std::string(const GpuState&)>& said) {
  std::vector<std::string> parts;
  for (const GpuState& gpu : gpus)
    if (const std::string text = said(gpu); !text.empty()) parts.push_back(fmt::format("{} ({}): {}", gpu.name, gpu.pci, text));
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// The GPUs that there are to look at; where there are none, `answer` is what the check comes to.
const std::vector<GpuState>* gpus_of(const DoctorContext& context, std::optional<DoctorAnswer>& answer) {
  const AcceleratorKind accelerator = context.inputs.settings.accelerator;
  const bool matters = accelerator == AcceleratorKind::none || accelerator == AcceleratorKind::cuda || accelerator == AcceleratorKind::pytorch;
  if (!matters) return nullptr;
  const GpuStates& states = context.system.gpus();
  if (!states.gpus.empty()) return &states.gpus;
  answer = states.why_none.empty() ? std::optional<DoctorAnswer>() : not_known(states.why_none);
  return nullptr;
}

std::string link_text(const GpuState& gpu) {
  if (gpu.link_width && gpu.link_width_most && *gpu.link_width < *gpu.link_width_most)
    return fmt::format("{} lanes of PCI Express where it could use {}", *gpu.link_width, *gpu.link_width_most);
  if (gpu.link_generation_most && gpu.link_generation_of_gpu && *gpu.link_generation_most < *gpu.link_generation_of_gpu)
    return fmt::format("its slot has PCI Express {}, and it could use {}", *gpu.link_generation_most, *gpu.link_generation_of_gpu);
  return {};
}

std::string held_back_text(const GpuState& gpu) {
  const std::uint64_t by = gpu.held_back_by.value_or(0);
  if ((by & GpuHeldBack::by_heat) != 0) return "its clocks are held down by heat";
  if ((by & GpuHeldBack::by_power_supply) != 0) return "its clocks are held down by its power supply";
  if ((by & GpuHeldBack::by_hardware) != 0) return "its clocks are held down by its hardware";
  return {};
}

std::string lowered_text(const GpuState& gpu) {
  const std::uint64_t by = gpu.held_back_by.value_or(0);
  if ((by & GpuHeldBack::by_power_limit) != 0) return "it is at its power limit";
  if ((by & GpuHeldBack::by_setting) != 0) return "its clocks are set below the highest";
  return {};
}

std::string others_text(const GpuState& gpu) {
  std::vector<std::string> parts;
  for (const GpuState::Process& process : gpu.processes) {
    if (process.pid == static_cast<unsigned>(::getpid())) continue;
    parts.push_back(
        fmt::format("PID {}{}", process.pid, process.memory_bytes > 0 ? fmt::format(" with {}", format_bytes(process.memory_bytes)) : ""));
  }
  constexpr std::size_t most = 4;
  if (parts.size() > most) {
    const std::size_t more = parts.size() - most;
    parts.resize(most);
    parts.push_back(fmt::format("{} more", more));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::optional<DoctorAnswer> look_at_gpu_link(const DoctorContext& context) {
  std::optional<DoctorAnswer> none;
  const auto* const gpus = gpus_of(context, none);
  if (gpus == nullptr) return none;
  const std::string narrow = of_each(*gpus, link_text);
  if (narrow.empty()) {
    const GpuState& first = gpus->front();
    if (!first.link_width || !first.link_generation_most) return not_known("the driver does not tell how the GPU is linked");
    return fine(fmt::format("PCI Express {}, {} lanes", *first.link_generation_most, *first.link_width));
  }
  DoctorAnswer answer{DoctorStatus::warning, narrow, "Put it into a slot with all lanes, and look at the links on the way:", {}};
  answer.commands = {context.as_root(fmt::format("lspci -vv -s {} | grep -E 'LnkCap|LnkSta'", first_of(*gpus, link_text).pci))};
  return answer;
}

std::optional<DoctorAnswer> look_at_gpu_clocks(const DoctorContext& context) {
  std::optional<DoctorAnswer> none;
  const auto* const gpus = gpus_of(context, none);
  if (gpus == nullptr) return none;
  if (const std::string slowed = of_each(*gpus, held_back_text); !slowed.empty()) {
    DoctorAnswer answer{DoctorStatus::warning, slowed, "Cool it or feed it better, and watch:", {}};
    answer.commands = {{DoctorCommand::Where::here, "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"}};
    return answer;
  }
  if (const std::string lowered = of_each(*gpus, lowered_text); !lowered.empty())
    return DoctorAnswer{DoctorStatus::note, lowered, "G is that of a GPU held so.", {}};
  return fine("nothing holds their clocks back");
}

std::optional<DoctorAnswer> look_at_gpu_memory(const DoctorContext& context) {
  std::optional<DoctorAnswer> none;
  const auto* const gpus = gpus_of(context, none);
  if (gpus == nullptr) return none;
  const std::string broken = of_each(*gpus, [](const GpuState& gpu) {
    return gpu.memory_errors.value_or(0) > 0 ? fmt::format("{} memory errors that could not be corrected", *gpu.memory_errors) : std::string();
  });
  if (broken.empty()) {
    if (!gpus->front().memory_errors) return DoctorAnswer{DoctorStatus::note, "its memory counts no errors (no ECC)", {}, {}};
    return fine("no errors that could not be corrected");
  }
  DoctorAnswer answer{DoctorStatus::warning, broken, "Have it reset when nothing uses it; if they come back, have it replaced:", {}};
  answer.commands = {{DoctorCommand::Where::here, "nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER"}};
  return answer;
}

std::optional<DoctorAnswer> look_at_gpu_sharing(const DoctorContext& context) {
  std::optional<DoctorAnswer> none;
  const auto* const gpus = gpus_of(context, none);
  if (gpus == nullptr) return none;
  if (const std::string shared = of_each(*gpus, others_text); !shared.empty()) {
    DoctorAnswer answer{DoctorStatus::warning, "others compute on it: " + shared, "Let them end, or take another GPU:", {}};
    answer.commands = {{DoctorCommand::Where::here, "nvidia-smi"}, {DoctorCommand::Where::here, "export CUDA_VISIBLE_DEVICES=NUMBER"}};
    return answer;
  }
  const std::string parts =
      of_each(*gpus, [](const GpuState& gpu) { return gpu.divided.value_or(false) ? std::string("divided into instances (MIG)") : std::string(); });
  if (!parts.empty()) return DoctorAnswer{DoctorStatus::note, parts, "G is that of one instance; copies to it share the GPU's link.", {}};
  return fine("no other process computes on them");
}

std::optional<DoctorAnswer> look_at_gpu_place(const DoctorContext& context) {
  std::optional<DoctorAnswer> none;
  const auto* const gpus = gpus_of(context, none);
  if (gpus == nullptr) return none;
  const std::vector<int>& allowed = context.inputs.host.cpus_allowed;
  const auto cpus_text = [&](const GpuState& gpu) { return context.read("/sys/bus/pci/devices/" + gpu.pci + "/local_cpulist").text; };
  const auto far_text = [&](const GpuState& gpu) {
    const auto near = cpus_text(gpu);
    if (!near || near->empty()) return std::string();
    const std::vector<int> near_cpus = parse_cpu_list(*near);
    const bool any = std::ranges::any_of(allowed, [&](int cpu) { return std::ranges::find(near_cpus, cpu) != near_cpus.end(); });
    return any ? std::string() : fmt::format("beside CPUs {}, none of which this process may use", *near);
  };
  const std::string far = of_each(*gpus, far_text);
  if (far.empty()) {
    if (!cpus_text(gpus->front())) return not_known("the kernel does not tell which CPUs the GPU is beside");
    return fine("beside CPUs that this process may use");
  }
  DoctorAnswer answer{DoctorStatus::warning, far, "Run on the CPUs of its node:", {}};
  answer.commands = {
      {DoctorCommand::Where::here, fmt::format("taskset -c {} dsanalyze profile ...", cpus_text(first_of(*gpus, far_text)).value_or("CPUS"))}};
  return answer;
}

}  // namespace dsanalyze
