#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "guardian.hpp"
#include "launch.hpp"
#include "launch_once.hpp"

/// A command that ends before all phases are measured is started again: what it trained is thrown away in any case.

namespace dsanalyze {
namespace {

constexpr int most_starts = 4;
constexpr std::uint64_t least_steps = 8;  ///< of a start in which nothing was measured: those of one phase in the next one

/// Its ranks may be on other servers, whose files are no sandbox's.
bool starts_ranks_elsewhere(const std::vector<std::string>& command) {
  constexpr std::array<std::string_view, 3> names{"mpirun", "mpiexec", "srun"};
  return std::ranges::find(names, std::filesystem::path(command.front()).filename().native()) != names.end();
}

bool may_start_again(const LaunchedTraining& launched, const LaunchSettings& settings) {
  const AttachedTraining& training = launched.training;
  const bool ended_well = launched.exit_status == std::optional(0) && launched.failure.empty() && !launched.finished;
  return ended_well && launched.sandbox && settings.plan.phases == Conductor::Phases::all && (training.measured() || training.steps >= least_steps) &&
         training.starts + 1 < most_starts && training.earlier_seconds < settings.plan.seconds && !starts_ranks_elsewhere(settings.command);
}

/// What two starts read, one after the other.
void append(AccessTrace& trace, AccessTrace later) {
  const auto files = static_cast<std::uint32_t>(trace.files.size());
  const auto processes = static_cast<std::uint32_t>(trace.processes.size());
  for (FileAccess& access : later.accesses) {
    access.file += files;
    access.process += processes;
  }
  const auto move = [](auto& to, auto& from) { to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end())); };
  move(trace.files, later.files);
  move(trace.processes, later.processes);
  move(trace.accesses, later.accesses);
  move(trace.untraced, later.untraced);
  trace.file_bytes += later.file_bytes;
  trace.other_bytes += later.other_bytes;
  trace.network_bytes += later.network_bytes;
  trace.lost_accesses += later.lost_accesses;
  trace.lost_bytes += later.lost_bytes;
  trace.left_out += later.left_out;
}

/// How the training was found is told by the first start, and how it ended by the last one.
void take_first(LaunchedTraining first, LaunchedTraining& last) {
  last.first_step_seconds = first.first_step_seconds;
  last.memory_usable = first.memory_usable;
  last.seconds += first.seconds;
  if (first.use.storage_bytes && last.use.storage_bytes) *last.use.storage_bytes += *first.use.storage_bytes;
  for (ProcessUse& use : first.others) {
    const auto same = std::ranges::find(last.others, use.pid, &ProcessUse::pid);
    if (same == last.others.end())
      last.others.push_back(std::move(use));
    else
      same->cpu_seconds += use.cpu_seconds;
  }
  std::ranges::sort(last.others, std::greater(), &ProcessUse::cpu_seconds);
  if (!first.accesses) return;
  if (last.accesses) append(*first.accesses, std::move(*last.accesses));
  last.accesses = std::move(first.accesses);
}

LaunchedTraining start(const LaunchSettings& settings, EventSink& events, const std::stop_token& stop, Timing timing, AttachedTraining so_far) {
  const auto guarded = std::make_shared<const GuardedSandbox>(settings.sandbox, settings.folder);
  return launch_once(settings, std::shared_ptr<const Sandbox>(guarded, guarded->sandbox()), events, stop, timing, std::move(so_far));
}

}  // namespace

LaunchedTraining launch_training(const LaunchSettings& settings, EventSink& events, const std::stop_token& stop, Timing timing) {
  if (settings.mode == AttachMode::passive) {
    std::optional<Guardian> guardian;
    try {
      guardian.emplace(settings.folder, Guardian::Duty::folder);
    } catch (const Error&) {
      // Where there is no process left, the training is worth more than a folder.
    }
    return launch_once(settings, nullptr, events, stop, timing, {});
  }
  LaunchedTraining launched = start(settings, events, stop, timing, {});
  while (may_start_again(launched, settings)) {
    AttachedTraining so_far = launched.training;
    ++so_far.starts;
    events.note(fmt::format("the command has ended before all phases were measured: it is started again for those that are left ({} of {} starts)",
                            so_far.starts + 1, most_starts));
    LaunchSettings again = settings;
    again.folder /= fmt::format("{}", so_far.starts + 1);
    std::optional<LaunchedTraining> next;
    try {
      std::filesystem::create_directory(again.folder);
      next = start(again, events, stop, timing, std::move(so_far));
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {  // What was measured before is told all the same.
      events.note(fmt::format("it could not be started again: {}", error.what()));
      return launched;
    }
    take_first(std::move(launched), *next);
    launched = std::move(*next);
  }
  return launched;
}

}  // namespace dsanalyze
