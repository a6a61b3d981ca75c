#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"

namespace dsanalyze {

/// Limits that a cgroup puts on this process, whichever version the host runs (v1's controllers where it has both); the tightest of
/// the path from the process's own group up to the root: the lowest quota, and the memory limit that leaves least. With v2, memory.high counts
/// as a limit too, since going past it throttles.
struct CgroupLimits {
  int version = 0;                  ///< 1, 2, or 0 for none found
  std::optional<double> cpu_cores;  ///< quota / period
  std::filesystem::path cpu_file;   ///< that sets the quota; empty for none
  std::optional<Bytes> memory_limit;
  std::filesystem::path memory_file;          ///< that sets the limit; empty for none
  Bytes memory_in_use = 0;                    ///< of the group that sets the limit, without its inactive page cache
  std::optional<std::uint64_t> threads_left;  ///< that may still be started (pids.max less those there are)
  std::filesystem::path threads_file;         ///< pids.max of the group that leaves so few; empty for none
};

/// `root` stands for "/" in tests: reads <root>/proc/self/cgroup, <root>/proc/self/mountinfo and the mounts that it names.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

/// What this machine gives this process. "usable" is after affinity and cgroup limits, never the host's own figure.
struct HostFacts {
  std::string cpu_model;
  int cores_online = 1;
  double cores_usable = 1;        ///< min(affinity, cgroup quota); may be fractional
  std::vector<int> cpus_allowed;  ///< affinity of the calling thread, online CPUs only
  int cores_physical = 1;         ///< cores that the allowed CPUs lie on: fewer where some are hyper-threads of one core
  Bytes memory_total = 0;
  Bytes memory_usable = 0;  ///< min(MemAvailable, cgroup limit less use) now
  std::string kernel;
  CgroupLimits cgroup;

  /// Worker threads to start when the user says "auto": cores_usable rounded down, at least 1.
  [[nodiscard]] int worker_count() const;
};
/// Throws Error if <root>/proc is not readable.
HostFacts read_host_facts(const std::filesystem::path& root = "/");

/// "0-3,8", as the kernel writes sets of CPUs and nodes: 0, 1, 2, 3, 8. What is no number is left out.
std::vector<int> parse_cpu_list(std::string_view text);

/// Restricts the calling thread, and threads that it starts from then on, to `cpus`. Returns false, with the reason in errno, if the system refuses.
bool set_thread_affinity(const std::vector<int>& cpus);
/// Threads of usual priority that want its core get it at once, as far as the system permits.
void yield_to_other_threads();

/// CPU time used up to now, for telling what others took in between.
struct CpuSample {
  double own_seconds = 0;   ///< user + system of this process
  double busy_seconds = 0;  ///< all non-idle time (steal included; interrupts and I/O wait not) of the CPUs we may use
  double wall_seconds = 0;
};
/// Processes that this one started are others. All zero if <root>/proc/stat is not readable.
CpuSample sample_cpu(const HostFacts& host, const std::filesystem::path& root = "/");
/// The share of the CPU time we may use that others took between the two samples; counter resolution (one tick a CPU) is subtracted. In [0, 1].
/// With a quota below the CPUs allowed, what others use of the rest takes nothing from us.
double others_cpu_share(const CpuSample& before, const CpuSample& after, const HostFacts& host);

/// Raises this process's limit of open files to `wanted` where it is lower, as far as the hard limit allows. Returns the limit that holds then.
std::uint64_t allow_open_files(std::uint64_t wanted);
/// Files, sockets and the like that this process has open (0 if unknown).
std::uint64_t count_open_files();

/// Resident memory of this process in bytes (0 if unknown).
Bytes resident_memory();
/// The most that it had since its start.
Bytes peak_resident_memory();

}  // namespace dsanalyze
