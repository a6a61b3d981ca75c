#include "attach_watch.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace dsanalyze::cli {

std::string AttachWatch::look(Nanoseconds now, Joined joined, FirstEpoch first_epoch, std::span<const StartedCommands::Running> unattached) {
  if (joined == Joined::some && !m_first_joined) m_first_joined = now;
  const double waited = to_seconds(now - m_first_joined.value_or(m_started));
  if (waited < (m_first_joined ? after_first_seconds : after_start_seconds)) return {};
  std::vector<int> jobs;
  std::vector<std::int64_t> processes;
  for (const StartedCommands::Running& each : unattached) {
    if (!m_told.insert(each.job).second) continue;
    jobs.push_back(each.job);
    processes.push_back(each.process);
  }
  if (jobs.empty()) return {};
  const bool one = jobs.size() == 1;
  return fmt::format("the {} {} ({}; {} {}) {} not attached yet, {:.0f} s after {}{}", one ? "command of job" : "commands of jobs",
                     fmt::join(jobs, ", "), m_command_line, one ? "process" : "processes", fmt::join(processes, ", "), one ? "has" : "have", waited,
                     m_first_joined ? "the first job joined the group" : "the start",
                     first_epoch == FirstEpoch::opened ? "" : fmt::format(": the first epoch waits for {}", one ? "it" : "them"));
}

}  // namespace dsanalyze::cli
