#include "gpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace dsanalyze {

Bytes bytes_to_touch(const GpuInfo& gpu) {
  constexpr Bytes most = Bytes{256} << 20;
  return std::clamp(gpu.memory_bytes / 16, Bytes{1} << 20, most);
}

bool wait_until_reached(const GpuMark& mark, Deadline deadline, Timing timing) {
  constexpr Nanoseconds longest_pause = 50'000;
  constexpr int looks_without_pause = 20;
  for (int looks = 0; !mark.reached(); ++looks) {
    const Nanoseconds now = timing.clock->now();
    if (now >= deadline.at) return false;
    if (looks >= looks_without_pause) timing.waiter->sleep_until(std::min(now + longest_pause, deadline.at));
  }
  return true;
}

void require_reached(const GpuMark& mark, double seconds, Timing timing, const char* what) {
  if (!wait_until_reached(mark, timing.clock->after(seconds), timing))
    throw Error(fmt::format("the GPU did not end {} within {:.0f} s: does another program hold it? (nvidia-smi)", what, seconds));
}

}  // namespace dsanalyze
