#include "attached_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text/enum_names.hpp"

namespace dsanalyze {

int rank_count(const AttachedTraining& training) {
  const auto full = training.phases.find(AttachPhase::full);
  return full == training.phases.end() ? 1 : std::max(static_cast<int>(full->second.by_rank.size()), 1);
}

namespace {

/// What the processes had used before and after a run.
std::pair<std::optional<TreeUse>, std::optional<TreeUse>> uses_around(const std::string& run, const AttachedTraining& training) {
  if (run == "prep" && training.loader) {
    const auto drain = std::ranges::find(training.drains, training.loader->workers, &DrainMeasurement::workers);
    if (drain != training.drains.end()) return {drain->before, drain->after};
  }
  const auto phase = std::ranges::find_if(training.phases, [&](const auto& each) { return run == enum_name(each.first); });
  if (phase == training.phases.end()) return {};
  return {phase->second.before, phase->second.after};
}

}  // namespace

void take_others(const LaunchedTraining& launched, const HostFacts& host, ProfileResult& result) {
  constexpr std::size_t most_named = 5;
  constexpr double worth_naming = 0.005;
  for (RunRecord& run : result.runs) {
    const auto [before, after] = uses_around(run.name, launched.training);
    if (!before || !after || !before->machine_cpu_seconds || !after->machine_cpu_seconds) continue;
    const auto sample = [](const TreeUse& use) { return CpuSample{use.cpu_seconds, *use.machine_cpu_seconds, to_seconds(use.at)}; };
    BackgroundLoad& load = run.others.emplace();
    load.cpu_fraction = others_cpu_share(sample(*before), sample(*after), host);
    for (const ProcessUse& used : launched.others) {
      const double fraction = used.cpu_seconds / launched.seconds / std::max(result.host.cores, 1.0);
      if (load.processes.size() < most_named && fraction >= worth_naming) load.processes.push_back({used.pid, used.command, fraction});
    }
  }
}

HostRecord host_record(const HostFacts& host, const AttachedTraining& training) {
  HostRecord record = machine_record(host);
  record.storage_meter = "what the kernel counts of each process of the training";
  const DeviceMessage& device = training.device;
  record.accelerator = device.cuda ? fmt::format("{} x {}", rank_count(training), device.device) : "the CPU: " + device.device;
  record.accelerator_shares_cores = !device.cuda;
  return record;
}

std::optional<double> chosen_cores(const AttachedTraining& training, double all) {
  std::set<int> cpus;
  for (const auto& [rank, own] : training.cpus) {
    if (own.empty()) return std::nullopt;
    cpus.insert(own.begin(), own.end());
  }
  if (cpus.empty()) return std::nullopt;
  // Those are of the main threads. What others of them used they had.
  double used = 0;
  const auto take = [&used](const std::optional<TreeUse>& before, const std::optional<TreeUse>& after) {
    if (before && after && after->at > before->at)
      used = std::max(used, (after->cpu_seconds - before->cpu_seconds) / to_seconds(after->at - before->at));
  };
  for (const auto& [phase, measured] : training.phases) take(measured.before, measured.after);
  for (const auto* drains : {&training.drains, &training.further_drains})
    for (const DrainMeasurement& drain : *drains) take(drain.before, drain.after);
  constexpr double clock_error = 0.25;
  const double chosen = std::max(static_cast<double>(cpus.size()), std::ceil(used - clock_error));
  return chosen < all ? std::optional(chosen) : std::nullopt;
}

}  // namespace dsanalyze
