#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dsanalyze {

/// What NVIDIA's management library (NVML) says of one GPU; nullopt: it does not tell.
struct GpuState {
  std::string name;
  std::string pci;                                 ///< "0000:3b:00.0", as the kernel calls it
  std::optional<unsigned> link_generation_most;    ///< that GPU and slot reach together
  std::optional<unsigned> link_generation_of_gpu;  ///< that the GPU alone could
  std::optional<unsigned> link_width;              ///< lanes, now
  std::optional<unsigned> link_width_most;
  std::optional<std::uint64_t> held_back_by;   ///< why its clocks are lower than they could be: GpuHeldBack
  std::optional<std::uint64_t> memory_errors;  ///< that could not be corrected, since the driver was loaded
  std::optional<bool> divided;                 ///< into instances (MIG)
  struct Process {
    unsigned pid = 0;
    std::uint64_t memory_bytes = 0;  ///< 0: not told
  };
  std::vector<Process> processes;  ///< that compute on it
};

/// Bits of GpuState::held_back_by, as NVML has them.
struct GpuHeldBack {
  static constexpr std::uint64_t by_setting = 0x2;
  static constexpr std::uint64_t by_power_limit = 0x4;
  static constexpr std::uint64_t by_hardware = 0x8;
  static constexpr std::uint64_t by_heat = 0x20 | 0x40;
  static constexpr std::uint64_t by_power_supply = 0x80;
};

struct GpuStates {
  std::vector<GpuState> gpus;
  std::string why_none;  ///< empty where there are some, or where nothing was expected
};

/// Asks libnvidia-ml.so.1, which comes with the driver and is opened for it. Does not throw.
GpuStates ask_nvml();
/// What tells of GPUs, by their UUIDs with commas between, the share of the last second or less in which they computed, 0 to 1, their mean; nothing
/// where one of them does not tell. The library is opened at the first question. Threads: one at a time.
std::function<std::optional<double>(const std::string& uuids)> gpu_use();

}  // namespace dsanalyze
