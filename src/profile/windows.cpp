#include "windows.hpp"

#include <algorithm>
#include <cstddef>

namespace dsanalyze {
namespace {

constexpr double window_seconds = 1.0;
constexpr std::size_t least_windows = 5;
constexpr std::size_t most_windows = 60;
constexpr double others_share_allowed = 0.02;
/// Where others are at work all the time, a rate holds with them at work; above this share it says more of them than of the loader.
constexpr double others_share_endured = 0.75;

struct Window {
  Nanoseconds begin = 0, end = 0;
  double rate = 0;
  bool disturbed = false;
  double others = 0;  ///< their share of the CPU
};

/// The last element at or before `at`; the first one when all are later.
template <typename Point>
const Point& at_or_before(std::span<const Point> points, Nanoseconds at) {
  const auto after = std::ranges::upper_bound(points, at, {}, &Point::at);
  return after == points.begin() ? points.front() : *(after - 1);
}

std::vector<Window> cut(std::span<const ProgressPoint> points, Nanoseconds begin, Nanoseconds end) {
  const double seconds = to_seconds(end - begin);
  const auto count = std::clamp(static_cast<std::size_t>(seconds / window_seconds), least_windows, most_windows);
  std::vector<Window> windows;
  ProgressPoint from = at_or_before(points, begin);
  for (std::size_t i = 1; i <= count; ++i) {
    const Nanoseconds edge = begin + (end - begin) / static_cast<Nanoseconds>(count) * static_cast<Nanoseconds>(i);
    const ProgressPoint to = at_or_before(points, i == count ? end : edge);
    if (to.at <= from.at) continue;
    windows.push_back({from.at, to.at, static_cast<double>(to.samples - from.samples) / to_seconds(to.at - from.at), false, 0});
    from = to;
  }
  return windows;
}

Estimate average(const std::vector<Window>& windows) {
  double samples = 0, seconds = 0;
  std::vector<double> rates;
  for (const Window& window : windows) {
    const double length = to_seconds(window.end - window.begin);
    samples += window.rate * length;
    seconds += length;
    rates.push_back(window.rate);
  }
  Estimate estimate = estimate_of_sequence(rates);
  if (seconds > 0) {
    const double shift = samples / seconds - estimate.value;
    estimate.value += shift;
    estimate.ci95.low = std::max(0.0, estimate.ci95.low + shift);
    estimate.ci95.high += shift;
  }
  return estimate;
}

}  // namespace

WindowedRate windowed_rate(std::span<const ProgressPoint> points, std::span<const CpuPoint> cpu, Nanoseconds begin, Nanoseconds end,
                           const HostFacts& host, JudgeCpu judge) {
  WindowedRate result;
  if (points.empty() || end <= begin) return result;
  std::vector<Window> windows = cut(points, begin, end);
  if (judge == JudgeCpu::yes && cpu.size() > 1) {
    for (Window& window : windows) {
      const CpuPoint& before = at_or_before(cpu, window.begin);
      const CpuPoint& after = at_or_before(cpu, window.end);
      if (after.at > before.at) window.others = others_cpu_share(before.cpu, after.cpu, host);
      window.disturbed = window.others > others_share_allowed;
    }
  }
  std::vector<Window> kept;
  std::ranges::copy_if(windows, std::back_inserter(kept), [](const Window& window) { return !window.disturbed; });
  if (kept.size() * 2 < windows.size()) {
    kept.clear();
    std::ranges::copy_if(windows, std::back_inserter(kept), [](const Window& window) { return window.others <= others_share_endured; });
    result.shared = static_cast<std::uint64_t>(std::ranges::count_if(kept, &Window::disturbed));
  }
  result.voided = windows.size() - kept.size();
  result.all_void = kept.empty() && !windows.empty();
  result.estimate = average(result.all_void ? windows : kept);
  result.kept = result.all_void ? 0 : kept.size();
  return result;
}

WindowedRate iteration_rate(std::span<const ProgressPoint> points) {
  WindowedRate rate;
  if (points.size() < 2) return rate;
  std::vector<double> times;  // of a sample
  for (std::size_t i = 1; i < points.size(); ++i) {
    const auto samples = static_cast<double>(std::max<std::uint64_t>(points[i].samples - points[i - 1].samples, 1));
    times.push_back(to_seconds(points[i].at - points[i - 1].at) / samples);
  }
  const double error = estimate_of_sequence(times).relative_half_width();
  const double whole = static_cast<double>(points.back().samples - points.front().samples) / to_seconds(points.back().at - points.front().at);
  rate.estimate = {whole, {whole * std::max(0.0, 1 - error), whole * (1 + error)}, times.size()};
  rate.kept = times.size();
  return rate;
}

}  // namespace dsanalyze
