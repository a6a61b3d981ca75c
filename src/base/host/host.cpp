#include "host.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// The value of a line "name: value" or "name\t: value"; empty if there is none.
std::string field_of(const std::string& content, std::string_view name) {
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name) || line.find_first_not_of(" \t", name.size()) != colon) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::string first_line_or_nothing(const fs::path& path) {
  try {
    const std::string content = read_file(path);
    return content.substr(0, content.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

/// A line "MemTotal:  1234 kB" of /proc/meminfo.
Bytes memory_field(const std::string& meminfo, std::string_view name) {
  Bytes kibibytes = 0;
  std::istringstream(field_of(meminfo, name)) >> kibibytes;
  return kibibytes * 1024;
}

std::string cpu_model(const std::string& cpuinfo) {
  for (const std::string_view name : {"model name", "Model", "Hardware", "cpu"}) {
    if (auto model = field_of(cpuinfo, name); !model.empty()) return model;
  }
  return "unknown";
}

/// Of the calling thread, which may have an affinity of its own.
std::vector<int> affinity(const fs::path& root, const std::vector<int>& online) {
  const fs::path own = root / "proc/thread-self/status";
  const std::string status = read_file(fs::exists(own) ? own : root / "proc/self/status");
  std::vector<int> cpus = parse_cpu_list(field_of(status, "Cpus_allowed_list"));
  if (!online.empty()) std::erase_if(cpus, [&](int cpu) { return std::ranges::find(online, cpu) == online.end(); });
  return cpus;
}

/// CPUs that share a core name the same siblings. A CPU that names none is a core of its own.
int physical_cores(const fs::path& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string siblings = first_line_or_nothing(root / "sys/devices/system/cpu" / fmt::format("cpu{}", cpu) / "topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  std::istringstream ranges{std::string(text)};
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0;
    const char* const end = range.data() + range.size();
    const auto begin = std::from_chars(range.data(), end, first);
    if (begin.ec != std::errc{}) continue;
    int last = first;
    if (begin.ptr != end && *begin.ptr == '-') std::from_chars(begin.ptr + 1, end, last);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

int HostFacts::worker_count() const { return std::max(1, static_cast<int>(cores_usable)); }

HostFacts read_host_facts(const fs::path& root) {
  HostFacts facts;
  const std::string meminfo = read_file(root / "proc/meminfo");
  const std::vector<int> online = parse_cpu_list(first_line_or_nothing(root / "sys/devices/system/cpu/online"));
  facts.cpus_allowed = affinity(root, online);
  facts.cpu_model = cpu_model(read_file(root / "proc/cpuinfo"));
  facts.cores_online = static_cast<int>(std::max<std::size_t>(online.empty() ? facts.cpus_allowed.size() : online.size(), 1));
  facts.cores_physical = physical_cores(root, facts.cpus_allowed);
  facts.kernel = first_line_or_nothing(root / "proc/sys/kernel/osrelease");
  facts.cgroup = read_cgroup_limits(root);

  const auto allowed = static_cast<double>(std::max<std::size_t>(facts.cpus_allowed.size(), 1));
  facts.cores_usable = std::min(allowed, facts.cgroup.cpu_cores.value_or(allowed));
  facts.memory_total = memory_field(meminfo, "MemTotal");
  facts.memory_usable = memory_field(meminfo, "MemAvailable");
  if (facts.cgroup.memory_limit) {
    const Bytes limit = *facts.cgroup.memory_limit;
    facts.memory_usable = std::min(facts.memory_usable, limit - std::min(limit, facts.cgroup.memory_in_use));
  }
  return facts;
}

void yield_to_other_threads() {
  constexpr int lower = 10;
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), lower));
}

bool set_thread_affinity(const std::vector<int>& cpus) {
  if (cpus.empty() || *std::ranges::min_element(cpus) < 0) return false;
  const auto count = static_cast<std::size_t>(*std::ranges::max_element(cpus)) + 1;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, Free> set(CPU_ALLOC(count));
  if (!set) return false;
  CPU_ZERO_S(bytes, set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set.get());
  return ::sched_setaffinity(0, bytes, set.get()) == 0;
}

std::uint64_t allow_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;  // a system that does not say it may not have one
  if (limit.rlim_cur < wanted) {
    rlimit raised = limit;
    raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

std::uint64_t count_open_files() {
  std::error_code error;
  std::uint64_t count = 0;
  for (fs::directory_iterator one("/proc/self/fd", error), end; !error && one != end; one.increment(error)) ++count;
  return count == 0 ? 0 : count - 1;  // the folder itself
}

Bytes resident_memory() {
  std::istringstream fields(first_line_or_nothing("/proc/self/statm"));
  Bytes total_pages = 0;
  Bytes resident_pages = 0;
  fields >> total_pages >> resident_pages;
  return resident_pages * static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
}

Bytes peak_resident_memory() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<Bytes>(usage.ru_maxrss) * 1024 : 0;
}

namespace {

double ticks_per_second() { return static_cast<double>(::sysconf(_SC_CLK_TCK)); }

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; }

double own_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

/// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice", in ticks: the work done or stolen. Guests are in user already.
double busy_ticks(std::istringstream& fields) {
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double io_wait = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  double steal = 0;
  fields >> user >> nice >> system >> idle >> io_wait >> interrupts >> soft_interrupts >> steal;
  return user + nice + system + steal;
}

double busy_seconds(const std::string& stat, const std::vector<int>& cpus) {
  double ticks = 0;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || name == "cpu") continue;
    const bool ours = std::ranges::any_of(cpus, [&](int cpu) { return name == "cpu" + std::to_string(cpu); });
    if (ours) ticks += busy_ticks(fields);
  }
  return ticks / ticks_per_second();
}

}  // namespace

CpuSample sample_cpu(const HostFacts& host, const std::filesystem::path& root) {
  try {
    const std::string stat = read_file(root / "proc/stat");
    return {own_seconds(), busy_seconds(stat, host.cpus_allowed), to_seconds(system_timing().clock->now())};
  } catch (const Error&) {
    return {};
  }
}

double others_cpu_share(const CpuSample& before, const CpuSample& after, const HostFacts& host) {
  const auto cpus = static_cast<double>(host.cpus_allowed.size());
  const double usable = std::min(host.cores_usable, cpus) * (after.wall_seconds - before.wall_seconds);
  if (!(usable > 0)) return 0;
  const double resolution = cpus / ticks_per_second();
  const double others = (after.busy_seconds - before.busy_seconds) - (after.own_seconds - before.own_seconds) - resolution;
  const double spare = cpus * (after.wall_seconds - before.wall_seconds) - usable;
  return std::clamp((others - spare) / usable, 0.0, 1.0);
}

}  // namespace dsanalyze
