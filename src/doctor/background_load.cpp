#include "doctor_context.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_processes = 5;
constexpr double worth_naming = 0.005;

double usable_seconds(const CpuSample& before, const CpuSample& after, const HostFacts& host) {
  return std::min(host.cores_usable, static_cast<double>(host.cpus_allowed.size())) * (after.wall_seconds - before.wall_seconds);
}

}  // namespace

BackgroundLoad background_load(const CpuSample& before, const CpuSample& after, const HostFacts& host, const ProcessWatch& processes) {
  BackgroundLoad load{others_cpu_share(before, after, host), {}};
  const double seconds = usable_seconds(before, after, host);
  if (!(seconds > 0)) return load;
  for (const ProcessUse& used : processes.used()) {
    const double share = used.cpu_seconds / seconds;
    if (load.processes.size() == most_processes || share < worth_naming) break;
    load.processes.push_back({used.pid, used.command, share});
  }
  return load;
}

std::string load_text(const BackgroundLoad& load) {
  if (load.processes.empty())
    return "no process that can be seen from here explains it; it ended meanwhile, runs outside of this container, or the hypervisor took the time";
  std::vector<std::string> names;
  names.reserve(load.processes.size());
  for (const auto& each : load.processes)
    names.push_back(fmt::format("{} (PID {}) {}", printable(each.command), each.pid, format_share(each.cpu_fraction)));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace dsanalyze
