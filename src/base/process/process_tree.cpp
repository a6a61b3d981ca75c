#include "process_tree.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "processes.hpp"

namespace dsanalyze {
namespace {

/// The processes of `all` that descend from `root`, without it.
std::vector<ProcessFacts> descendants(std::vector<ProcessFacts> all, int root) {
  std::multimap<int, ProcessFacts*> children;
  for (ProcessFacts& process : all) children.emplace(process.parent, &process);
  std::vector<ProcessFacts> found;
  std::vector<int> parents{root};
  while (!parents.empty()) {
    const auto [first, last] = children.equal_range(parents.back());
    parents.pop_back();
    for (auto child = first; child != last; ++child) {
      parents.push_back(child->second->pid);
      found.push_back(std::move(*child->second));
    }
    children.erase(first, last);
  }
  return found;
}

/// The value behind "NAME:" in /proc/PID/io.
std::optional<Bytes> counted(const std::string& text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds, in <proc>/pressure/io.
std::optional<double> storage_wait(const std::filesystem::path& proc) {
  try {
    const auto microseconds = counted(read_file(proc / "pressure" / "io"), "total=");
    return microseconds ? std::optional(static_cast<double>(*microseconds) * 1e-6) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_ended(const ProcessFacts& process) { return process.state == 'Z' || process.state == 'X'; }

}  // namespace

ProcessTree::ProcessTree(int root, std::filesystem::path proc) : m_root(root), m_proc(std::move(proc)) {}

std::vector<TreeProcess> ProcessTree::living() const {
  std::vector<TreeProcess> living;
  for (ProcessFacts& process : descendants(list_processes(m_proc), m_root))
    if (!has_ended(process)) living.push_back({process.pid, process.parent, std::move(process.command)});
  return living;
}

TreeUse moved(const TreeUse& use, const TreeUse& from, const TreeUse& to) {
  TreeUse later = to;
  later.at = use.at + (to.at - from.at);
  later.cpu_seconds = use.cpu_seconds + (to.cpu_seconds - from.cpu_seconds);
  later.requested_bytes = use.requested_bytes + (to.requested_bytes - from.requested_bytes);
  const auto move = [&](auto member) {
    if (use.*member && from.*member && to.*member)
      later.*member = *(use.*member) + (*(to.*member) - *(from.*member));
    else
      (later.*member).reset();
  };
  for (const auto bytes : {&TreeUse::storage_bytes, &TreeUse::traced_bytes, &TreeUse::network_bytes}) move(bytes);
  for (const auto seconds : {&TreeUse::machine_cpu_seconds, &TreeUse::storage_wait_seconds}) move(seconds);
  return later;
}

TreeUse ProcessTree::use() const {
  TreeUse use;
  use.at = system_timing().clock->now();
  std::vector<ProcessFacts> all = list_processes(m_proc);
  const auto root = std::ranges::find(all, m_root, &ProcessFacts::pid);
  if (root != all.end()) use.cpu_seconds = root->children_cpu_seconds;
  std::vector<ProcessFacts> counted_processes = descendants(std::move(all), m_root);
  for (const ProcessFacts& process : counted_processes) {
    use.cpu_seconds += process.cpu_seconds + process.children_cpu_seconds;
    if (!has_ended(process)) ++use.processes;
  }
  const auto add_io = [&](int pid) {
    try {
      const std::string text = read_file(m_proc / std::to_string(pid) / "io");
      use.requested_bytes += counted(text, "rchar: ").value_or(0);
      if (const auto bytes = counted(text, "\nread_bytes: "); bytes && use.storage_bytes) *use.storage_bytes += *bytes;
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  if (!add_io(m_root)) use.storage_bytes.reset();
  for (const ProcessFacts& process : counted_processes) add_io(process.pid);
  use.storage_wait_seconds = storage_wait(m_proc);
  return use;
}

Bytes requested_by_threads(const std::filesystem::path& process) {
  Bytes bytes = 0;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task", ignored)) {
    try {
      bytes += counted(read_file(thread.path() / "io"), "rchar: ").value_or(0);
    } catch (const Error&) {
      // It has ended.
    }
  }
  return bytes;
}

std::map<int, Bytes> ProcessTree::memory() const {
  constexpr Bytes kilobyte = 1024;
  std::map<int, Bytes> memory;
  for (const TreeProcess& process : living()) {
    try {
      const std::string text = read_file(m_proc / std::to_string(process.pid) / "smaps_rollup");
      const Bytes all = counted(text, "\nPss:").value_or(0);
      memory[process.pid] = (all - std::min(all, counted(text, "\nPss_File:").value_or(0))) * kilobyte;
    } catch (const Error&) {
      continue;  // It has ended, or may not be looked at.
    }
  }
  return memory;
}

bool ProcessTree::maps(int process, std::string_view part_of_path) const {
  std::ifstream lines(m_proc / std::to_string(process) / "maps");
  for (std::string line; std::getline(lines, line);)
    if (line.find(part_of_path) != std::string::npos) return true;
  return false;
}

bool adopt_orphans() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

std::optional<int> collect_children(int watched) {
  std::optional<int> status_of_watched;
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) != 0;) {
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;
    if (ended == watched) status_of_watched = status;
  }
  return status_of_watched;
}

bool cleans_up_after_others(int process) {
  std::string command;
  try {
    command = read_file(std::filesystem::path("/proc") / std::to_string(process) / "cmdline");
  } catch (const Error&) {
    return false;
  }
  return command.find("multiprocessing.resource_tracker") != std::string::npos || command.find("torch_shm_manager") != std::string::npos;
}

void end_all(const std::function<std::vector<int>()>& living, double patience_seconds) {
  bool spare_cleaners = true;
  const auto left = [&] {
    std::vector<int> processes = living();
    if (spare_cleaners) std::erase_if(processes, cleans_up_after_others);
    return processes;
  };
  const auto tell_all = [&](int signal) {
    for (const int process : left()) {
      ::kill(process, signal);
      ::kill(process, SIGCONT);  // a stopped process hears of no other signal before it goes on
    }
  };
  const auto none_left_within = [&](double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      const bool none_left = left().empty();
      collect_children(-1);  // Afterwards, so that what was found to have ended is collected.
      if (none_left) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  const auto kill_all = [&] {
    // What forks while it is killed leaves children behind, so again and again.
    constexpr int most_tries = 100;
    for (int i = 0; i < most_tries; ++i) {
      tell_all(SIGKILL);
      if (none_left_within(0.05)) return;
    }
  };
  // Asked once: a second SIGTERM makes some programs give up their orderly end.
  tell_all(SIGTERM);
  if (!none_left_within(patience_seconds)) kill_all();
  spare_cleaners = false;
  constexpr double cleaning_seconds = 5;
  if (!none_left_within(cleaning_seconds)) kill_all();
}

std::vector<TreeProcess> end_descendants(double patience_seconds) {
  const ProcessTree tree(::getpid());
  end_all(
      [&tree] {
        std::vector<int> processes;
        for (const TreeProcess& process : tree.living()) processes.push_back(process.pid);
        return processes;
      },
      patience_seconds);
  return tree.living();
}

}  // namespace dsanalyze
