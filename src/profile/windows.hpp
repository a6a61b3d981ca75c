#pragma once

#include <cstdint>
#include <span>

#include "base/clock.hpp"
#include "base/host/host.hpp"
#include "base/statistics.hpp"

namespace dsanalyze {

/// Samples done up to an instant.
struct ProgressPoint {
  Nanoseconds at = 0;
  std::uint64_t samples = 0;
};

struct CpuPoint {
  Nanoseconds at = 0;
  CpuSample cpu;
};

enum class JudgeCpu {
  yes,  ///< windows in which others took more than 2 % of our CPU are void
  no    ///< the run only waits (emulated devices): others' work does not matter
};

/// A rate from repeated windows.
struct WindowedRate {
  Estimate estimate;  ///< samples/s
  std::uint64_t kept = 0;
  std::uint64_t shared = 0;  ///< of those kept: others took more than 2 % of our CPU, as they did in most
  std::uint64_t voided = 0;
  bool all_void = false;  ///< every window was void: the estimate uses them all and is not to be trusted
};

/// Where others left fewer than half of the windows alone, those count in which they took up to three quarters: the rate is that beside them.
/// Cuts [begin, end] into windows of about a second (at least five), each from one progress point to another, and averages the rates of those that
/// others left alone. Points are in the order of time.
WindowedRate windowed_rate(std::span<const ProgressPoint> points, std::span<const CpuPoint> cpu, Nanoseconds begin, Nanoseconds end,
                           const HostFacts& host, JudgeCpu judge);

/// A rate iteration by iteration: each is a window. Times are averaged and not rates, as an iteration that is seen late makes the next one look
/// short, of whose rate the mean would be anything.
WindowedRate iteration_rate(std::span<const ProgressPoint> points);

}  // namespace dsanalyze
