#include "started_commands.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <random>

namespace dsanalyze::cli {
namespace {

/// Not to be guessed, so that a process that has it was started by the command; never 0.
std::uint64_t drawn_number() {
  std::random_device random;
  return std::uniform_int_distribution<std::uint64_t>(1)(random);
}

}  // namespace

void StartedCommands::start(const std::vector<std::string>& added) {
  auto started = std::make_unique<Started>();
  started->number = drawn_number();
  std::vector<std::string> all_added = added;
  all_added.push_back(fmt::format("DSANALYZE_COMMAND={:x}", started->number));
  started->record.job = static_cast<int>(m_started.size());
  started->record.attached = false;
  started->record.batches_taken = 0;
  started->group.emplace([&] { return spawn_command(m_words, all_added, SpawnWay{.output = m_output}); });
  started->process = started->group->leader();
  m_started.push_back(std::move(started));
}

void StartedCommands::end(Started& started, int status) {
  if (WIFSIGNALED(status)) {
    started.record.signal = WTERMSIG(status);
  } else {
    started.record.exit_status = WEXITSTATUS(status);
  }
}

std::vector<std::size_t> StartedCommands::collect() {
  std::vector<std::size_t> ended;
  for (std::size_t i = 0; i < m_started.size(); ++i) {
    Started& started = *m_started[i];
    if (!started.group || !started.group->ended()) continue;
    if (const auto status = started.group->finish()) end(started, *status);
    started.group.reset();
    ended.push_back(i);
  }
  return ended;
}

std::size_t StartedCommands::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(m_started, [](const auto& started) { return started->group.has_value(); }));
}

std::vector<StartedCommands::Running> StartedCommands::unattached() const {
  std::vector<Running> found;
  for (const auto& started : m_started) {
    if (started->group && started->record.attached == false) found.push_back({started->record.job, started->process});
  }
  return found;
}

void StartedCommands::signal(int number) const {
  for (const auto& started : m_started) {
    if (started->group) started->group->signal(number);
  }
}

StartedCommands::Started* StartedCommands::owner_of(const GroupJobOrigin& origin) {
  auto found = std::ranges::find(m_started, origin.command, &Started::number);
  if (found == m_started.end()) found = std::ranges::find(m_started, origin.process_group, &Started::process);
  return found == m_started.end() ? nullptr : found->get();
}

void StartedCommands::look_at(std::span<const GroupJobAccount> jobs) {
  m_others = 0;
  for (const auto& started : m_started) started->record.batches_taken = 0;
  for (const GroupJobAccount& job : jobs) {
    if (Started* const owner = owner_of(job.origin); owner != nullptr) {
      owner->record.attached = true;
      if (job.end == JobEnd::finished) owner->record.had_all_epochs = true;
      *owner->record.batches_taken += job.counts.batches_taken;
    } else {
      ++m_others;
    }
  }
}

std::vector<ShareCommandRecord> StartedCommands::records() const {
  std::vector<ShareCommandRecord> records;
  records.reserve(m_started.size());
  for (const auto& started : m_started) records.push_back(started->record);
  return records;
}

std::string how_it_ended(const ShareCommandRecord& command) {
  const std::string_view unattached = command.attached == false ? ", without having attached" : "";
  if (command.signal) return fmt::format("killed by signal {} ({}){}", *command.signal, ::strsignal(*command.signal), unattached);
  return fmt::format("exit status {}{}", command.exit_status.value_or(0), unattached);
}

}  // namespace dsanalyze::cli
