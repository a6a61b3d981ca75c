#include "background_load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsanalyze/base/text.hpp"

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

void judge_background_load(RunContext& context, const std::vector<RunRecord>& runs) {
  std::vector<std::string> shares;
  const RunRecord* most = nullptr;
  bool shared = false;
  for (const RunRecord& run : runs) {
    if (!run.others || run.shared_windows + run.void_windows == 0) continue;
    shared = shared || run.shared_windows > 0 || run.windows == 0;
    shares.push_back(fmt::format("{} in the run \"{}\"", format_share(run.others->cpu_fraction), run.name));
    if (most == nullptr || run.others->cpu_fraction > most->others->cpu_fraction) most = &run;
  }
  if (most == nullptr) return;
  context.find(shared ? Finding::Severity::warning : Finding::Severity::info, "other-processes",
               fmt::format("other processes took a part of the CPU, {}: {}.{}", fmt::join(shares, ", "), load_text(*most->others),
                           shared ? " The rates are what is left beside them; stop them and profile again for the machine's own." : ""));
}

}  // namespace dsanalyze
