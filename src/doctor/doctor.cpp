#include <fmt/format.h>

#include <array>
#include <exception>

#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

struct Entry {
  DoctorCheckDescription description;
  DoctorLook look;
};

constexpr std::array table{
    Entry{{"cpu-quota", "cpu", "CPU quota", "Threads past a cgroup's quota are stopped for the rest of each period: rates become uneven and lower."},
          look_at_cpu_quota},
    Entry{{"cpu-affinity", "cpu", "CPUs allowed", "P grows with cores; what this process may not use, its workers cannot."}, look_at_cpu_affinity},
    Entry{{"workers", "cpu", "workers and cores",
           "More workers than cores take turns on them; fewer leave cores idle, and P is lower than the machine's."},
          look_at_workers},
    Entry{{"cpu-frequency", "cpu", "frequency scaling",
           "A core that speeds up late, or is held below its speed, makes P lower and different at every run."},
          look_at_frequency},
    Entry{{"cpu-steal", "cpu", "steal time", "Time that the hypervisor gives to other guests is missing from every rate, and comes and goes."},
          look_at_steal},
    Entry{{"other-processes", "cpu", "other processes",
           "What others take of the CPU is missing from P and from training, and no two runs miss the same."},
          look_at_other_processes},
    Entry{{"memory-limit", "memory", "memory limit", "A cache that does not fit a cgroup's limit ends in a kill or in reclaim instead of hits."},
          look_at_memory_limit},
    Entry{{"memory-for-cache", "memory", "memory for the cache",
           "What does not fit into free memory is not cached: a profile shrinks it, or runs a subset."},
          look_at_memory_for_cache},
    Entry{{"swap", "memory", "swap", "A cached sample that was swapped out is read from disk, and counted as a hit."}, look_at_swap},
    Entry{{"huge-pages", "memory", "huge pages", "Direct reads into 4 KiB pages are many small segments: on a virtual disk half the speed."},
          look_at_huge_pages},
    Entry{{"numa", "memory", "NUMA nodes", "Memory of another node is slower: P and C depend on where threads and samples happen to lie."},
          look_at_numa},
    Entry{{"open-files", "limits", "open files", "Each read in flight needs a file, and shards stay open; past the limit reads wait or fail."},
          look_at_open_files},
    Entry{{"locked-memory", "limits", "locked memory", "Older kernels count io_uring's rings as locked memory, and refuse them past the limit."},
          look_at_locked_memory},
    Entry{{"threads", "limits", "threads", "Workers and readers are threads; where they cannot be started, runs fail."}, look_at_threads},
    Entry{{"dataset-access", "storage", "access to the dataset", "Samples that cannot be read are skipped, and skew every rate."},
          look_at_dataset_access},
    Entry{{"filesystem", "storage", "filesystem", "It decides whether a cold run is cold, and whether anything tells what reached the disk."},
          look_at_filesystem},
    Entry{{"disk-type", "storage", "disk", "Random reads cost a hard disk a seek each, and a virtual or remote disk its host's or network's time."},
          look_at_disk_type},
    Entry{{"disk-scheduler", "storage", "disk scheduler", "A scheduler that orders requests for a spinning disk slows one that has no seeks."},
          look_at_disk_scheduler},
    Entry{{"read-ahead", "storage", "read-ahead",
           "Buffered reads in file order come in pieces of this size: small ones leave the disk idle between them."},
          look_at_read_ahead},
    Entry{{"access-time", "storage", "access times", "With strict access times every read of a file is also a write to the disk."},
          look_at_access_time},
    Entry{{"state-space", "storage", "room for results", "A profile that cannot be saved is lost to `whatif` and `gate`."}, look_at_state_space},
    Entry{{"io-uring", "io", "io_uring", "It opens and reads many small files by one system call; without it threads do, with more of the CPU."},
          look_at_io_uring},
    Entry{{"direct-io", "io", "direct I/O", "Reads past the page cache cost less CPU, and are cold by themselves."}, look_at_direct_io},
    Entry{
        {"page-cache", "io", "dropping cached pages", "What stays in the page cache is read from memory in a run that is to be cold: S is too high."},
        look_at_page_cache},
    Entry{{"gpu", "machine", "GPU", "G is measured on the GPU that trains; without one it must be given, and the verdict rests on it."}, look_at_gpu},
    Entry{{"gpu-link", "machine", "link to the GPU", "Batches come over it: half the lanes are half of H, the rate of copies to the GPU."},
          look_at_gpu_link},
    Entry{{"gpu-clocks", "machine", "clocks of the GPU", "A GPU that is held back trains slower, and G differs from run to run."},
          look_at_gpu_clocks},
    Entry{{"gpu-memory", "machine", "memory of the GPU", "Errors that cannot be corrected end a training, and spoil what it has computed."},
          look_at_gpu_memory},
    Entry{{"gpu-sharing", "machine", "others on the GPU", "What other processes compute there is missing from G, and no two runs miss the same."},
          look_at_gpu_sharing},
    Entry{{"gpu-place", "machine", "place of the GPU", "Batches that are prepared on CPUs of another node cross the link between the nodes first."},
          look_at_gpu_place},
    Entry{{"clock-source", "machine", "clock", "Every sample is timed several times; a slow clock takes its time from prep and fetch."},
          look_at_clock},
};

DoctorAnswer answer_of(const Entry& entry, const DoctorContext& context, bool& matters) {
  try {
    auto answer = entry.look(context);
    matters = answer.has_value();
    return answer ? std::move(*answer) : DoctorAnswer{};
  } catch (const std::exception& error) {
    matters = true;
    return not_known(error.what());
  }
}

/// What a profile of the same settings says by itself, with its consequences for the result.
bool told_by_profile(const DoctorCheck& check) {
  return check.code == "io-uring" || check.code == "memory-for-cache" || check.code == "dataset-access";
}

}  // namespace

std::vector<DoctorCheckDescription> doctor_checks() {
  std::vector<DoctorCheckDescription> all;
  all.reserve(table.size());
  for (const Entry& entry : table) all.push_back(entry.description);
  return all;
}

DoctorResult examine(const DoctorInputs& inputs, DoctorSystem& system) {
  const DoctorContext context(inputs, system);
  DoctorResult result;
  result.tool = this_tool();
  result.cpu_model = inputs.host.cpu_model;
  result.cores_usable = inputs.host.cores_usable;
  result.cores_online = inputs.host.cores_online;
  result.memory_usable_bytes = inputs.host.memory_usable;
  result.kernel = inputs.host.kernel;
  result.container = container_name(context.container);
  if (inputs.index) result.dataset = inputs.settings.dataset;
  for (const Entry& entry : table) {
    bool matters = false;
    DoctorAnswer answer = answer_of(entry, context, matters);
    if (!matters) continue;
    if (answer.commands.empty() && answer.fix.ends_with(':')) answer.fix.back() = '.';
    const DoctorCheckDescription& about = entry.description;
    result.checks.push_back({std::string(about.code), std::string(about.group), std::string(about.title), answer.status, std::move(answer.found),
                             std::string(about.why), std::move(answer.fix), std::move(answer.commands)});
  }
  return result;
}

std::vector<Finding> doctor_findings(const DoctorResult& result) {
  std::vector<Finding> findings;
  for (const DoctorCheck& check : result.checks) {
    const bool tell = check.status == DoctorStatus::warning || check.status == DoctorStatus::problem;
    if (!tell || told_by_profile(check)) continue;
    std::string message = fmt::format("{}: {}. {} {}", check.title, check.found, check.why, check.fix);
    if (!check.commands.empty()) {
      const DoctorCommand& first = check.commands.front();
      message += fmt::format(" {}{}", first.where == DoctorCommand::Where::host ? "on the host: " : "", first.command);
    }
    findings.push_back({"doctor-" + check.code, Finding::Severity::warning, std::move(message)});
  }
  return findings;
}

}  // namespace dsanalyze
