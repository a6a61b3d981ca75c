#include "processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

/// "PID (COMMAND) STATE PPID ..."; a command may hold brackets and blanks itself. Nothing where the text is cut off.
std::optional<ProcessFacts> parse_stat(const std::string& stat) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessFacts facts;
  facts.command = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  std::string skipped;
  fields >> facts.state >> facts.parent;
  for (int field = 5; field <= 13; ++field) fields >> skipped;
  std::array<std::uint64_t, 4> ticks{};  // user, system, and those of collected children
  for (std::uint64_t& each : ticks) fields >> each;
  for (int field = 18; field <= 21; ++field) fields >> skipped;
  fields >> facts.started;
  if (fields.fail()) return std::nullopt;
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  facts.cpu_seconds = static_cast<double>(ticks[0] + ticks[1]) / ticks_per_second;
  facts.children_cpu_seconds = static_cast<double>(ticks[2] + ticks[3]) / ticks_per_second;
  return facts;
}

bool is_process_number(const std::string& name) {
  constexpr std::size_t most_digits = 9;
  return !name.empty() && name.size() <= most_digits && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

ProcessWatch::ProcessWatch(std::filesystem::path root) : m_root(std::move(root)) {}

std::vector<ProcessFacts> list_processes(const std::filesystem::path& proc) {
  std::vector<ProcessFacts> list;
  std::error_code ended;
  for (std::filesystem::directory_iterator entry(proc, ended), end; !ended && entry != end; entry.increment(ended)) {
    const std::string name = entry->path().filename().native();
    if (!is_process_number(name)) continue;
    try {
      if (auto facts = parse_stat(read_file(entry->path() / "stat"))) {
        facts->pid = std::stoi(name);
        list.push_back(std::move(*facts));
      }
    } catch (const Error&) {
      continue;  // it ended meanwhile
    }
  }
  return list;
}

std::vector<int> processes_with(std::string_view variable, const std::filesystem::path& proc) {
  std::vector<int> found;
  const std::string wanted = '\0' + std::string(variable) + '\0';
  for (const ProcessFacts& process : list_processes(proc)) {
    if (process.state == 'Z') continue;
    try {
      if (('\0' + read_file(proc / std::to_string(process.pid) / "environ")).find(wanted) != std::string::npos) found.push_back(process.pid);
    } catch (const Error&) {
      continue;  // it ended meanwhile, or is another user's
    }
  }
  return found;
}

void ProcessWatch::look() {
  for (const ProcessFacts& process : list_processes(m_root / "proc")) {
    // What was not there at the first look has begun since.
    const auto [seen, is_new] =
        m_seen.try_emplace({process.pid, process.started}, Seen{process.command, m_looked ? 0 : process.cpu_seconds, process.cpu_seconds});
    if (!is_new) seen->second.last_seconds = process.cpu_seconds;
  }
  m_looked = true;
}

std::vector<ProcessUse> ProcessWatch::used() const {
  std::vector<ProcessUse> list;
  for (const auto& [process, seen] : m_seen)
    if (process.first != ::getpid() && seen.last_seconds > seen.first_seconds)
      list.push_back({process.first, seen.command, seen.last_seconds - seen.first_seconds});
  std::ranges::stable_sort(list, std::ranges::greater{}, &ProcessUse::cpu_seconds);
  return list;
}

namespace {

struct Groups {
  std::mutex mutex;
  std::vector<int> leaders;
};

Groups& groups() {
  static Groups all;
  return all;
}

}  // namespace

StartedGroup::StartedGroup(const std::function<int()>& start) {
  const std::lock_guard lock(groups().mutex);
  m_leader = start();
  groups().leaders.push_back(m_leader);
}

StartedGroup::~StartedGroup() {
  const std::lock_guard lock(groups().mutex);
  std::erase(groups().leaders, m_leader);
}

void kill_started_groups() {
  // Asked again and again: what waits on a lock with a deadline (std::timed_mutex) is a function of a C library that the program must run without.
  constexpr std::chrono::milliseconds between{1};
  constexpr int asked = 1000;
  std::unique_lock lock(groups().mutex, std::try_to_lock);
  for (int again = 0; !lock.owns_lock(); ++again) {
    if (again == asked) return;  // A command whose program does not even begin, on a file system that does not answer.
    std::this_thread::sleep_for(between);
    lock = std::unique_lock(groups().mutex, std::try_to_lock);
  }
  for (const int leader : groups().leaders) ::kill(-leader, SIGKILL);
}

}  // namespace dsanalyze
