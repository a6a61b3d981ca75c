#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "host.hpp"

namespace dsanalyze {
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
