#include "processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "PID (COMMAND) STATE PPID ..."; a command may hold brackets and blanks itself. False where the text is cut off.
bool read_stat(const std::string& stat, std::string& command, std::uint64_t& ticks, std::uint64_t& started) {
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  command = stat.substr(open + 1, close - open - 1);
  std::istringstream fields(stat.substr(close + 1));
  std::string skipped;
  for (int field = 3; field <= 13; ++field) fields >> skipped;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> user >> system;
  for (int field = 16; field <= 21; ++field) fields >> skipped;
  fields >> started;
  ticks = user + system;
  return !fields.fail();
}

}  // namespace

ProcessWatch::ProcessWatch(std::filesystem::path root) : m_root(std::move(root)) {}

void ProcessWatch::look() {
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::error_code ended;
  for (std::filesystem::directory_iterator entry(m_root / "proc", ended), end; !ended && entry != end; entry.increment(ended)) {
    const std::string name = entry->path().filename().native();
    if (!is_number(name) || name.size() > 9) continue;
    std::string command;
    std::uint64_t ticks = 0;
    std::uint64_t started = 0;
    try {
      if (!read_stat(read_file(entry->path() / "stat"), command, ticks, started)) continue;
    } catch (const Error&) {
      continue;  // it ended meanwhile
    }
    const double seconds = static_cast<double>(ticks) / ticks_per_second;
    // What was not there at the first look has begun since.
    const auto [seen, is_new] = m_seen.try_emplace({std::stoi(name), started}, Seen{command, m_looked ? 0 : seconds, seconds});
    if (!is_new) seen->second.last_seconds = seconds;
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

}  // namespace dsanalyze
