#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "base/text/text.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

constexpr double much_throttled = 0.05;  // of the periods
constexpr double much_stolen = 0.02;     // what a profile's windows tolerate of others
constexpr double least_busy_ticks = 10;  // below that one tick says nothing
constexpr double watch_seconds = 0.2;
constexpr double processes_seconds = 0.3;
constexpr double much_taken = 0.05;  // a few ticks of so short a watch

std::string cores_text(double cores) { return format_number(cores) + (cores == 1 ? " core" : " cores"); }

/// The share of its periods in which the group was stopped, so far.
double throttled_share(const DoctorContext& context) {
  const auto stat = context.read(context.name_of(context.inputs.host.cgroup.cpu_file.parent_path() / "cpu.stat"));
  std::istringstream fields(stat.text.value_or(""));
  double periods = 0;
  double throttled = 0;
  std::string key;
  for (double value = 0; fields >> key >> value;) {
    if (key == "nr_periods") periods = value;
    if (key == "nr_throttled") throttled = value;
  }
  return periods > 0 ? throttled / periods : 0;
}

/// What all CPUs that we may use spent since they started, in ticks.
struct Ticks {
  double wanted = 0;  // busy or stolen
  double stolen = 0;
};

std::optional<Ticks> ticks_of(const std::string& stat, const std::vector<int>& cpus) {
  Ticks sum;
  bool any = false;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu") || std::ranges::none_of(cpus, [&](int cpu) { return name == "cpu" + std::to_string(cpu); })) continue;
    std::array<double, 8> values{};  // user nice system idle iowait irq softirq steal
    for (double& value : values) fields >> value;
    if (!fields) continue;
    any = true;
    sum.stolen += values[7];
    sum.wanted += values[0] + values[1] + values[2] + values[5] + values[6] + values[7];
  }
  return any ? std::optional(sum) : std::nullopt;
}

double stolen_share(const Ticks& ticks) { return ticks.wanted >= least_busy_ticks ? ticks.stolen / ticks.wanted : 0; }

/// "cpu0 to cpu3: powersave" as counts of each word.
std::string counted(const std::map<std::string, int>& words) {
  std::string text;
  for (const auto& [word, count] : words) text += fmt::format("{}{} on {} of them", text.empty() ? "" : ", ", word, count);
  return words.size() == 1 ? words.begin()->first : text;
}

}  // namespace

std::optional<DoctorAnswer> look_at_cpu_quota(const DoctorContext& context) {
  const HostFacts& host = context.inputs.host;
  const ProfileSettings& settings = context.inputs.settings;
  if (host.cgroup.version == 0 && context.in_container())
    return not_known("this container shows no cgroups, so it is not known whether it has a quota of CPU time");
  const auto allowed = static_cast<double>(host.cpus_allowed.size());
  if (!host.cgroup.cpu_cores || *host.cgroup.cpu_cores >= allowed) return fine("no quota below the CPUs allowed");
  const double quota = *host.cgroup.cpu_cores;
  const double wanted = context.prepares() ? std::max(settings.cores, settings.workers) : 0;
  const double throttled = throttled_share(context);
  DoctorAnswer answer{
      DoctorStatus::note,
      fmt::format("the cgroup allows {} of {} ({})", cores_text(quota), format_number(allowed), context.name_of(host.cgroup.cpu_file)),
      {},
      {}};
  if (throttled > much_throttled) answer.found += fmt::format("; it was stopped in {} of its periods so far", format_share(throttled));
  if (wanted > quota)
    answer.found += fmt::format("; {} are asked for", wanted == settings.workers ? fmt::format("{} workers", wanted) : cores_text(wanted));
  if (wanted > quota || throttled > much_throttled) answer.status = DoctorStatus::warning;
  answer.fix = fmt::format("The result holds for {}. Pass at most --workers {}, or raise the quota.", cores_text(quota), host.worker_count());
  const std::string all = format_number(allowed);
  if (context.in_container())
    answer.commands = context.launch("--cpus=" + all, fmt::format("resources: {{limits: {{cpu: \"{}\"}}}}", all));
  else
    answer.commands = {context.write_file(host.cgroup.cpu_file.filename() == "cpu.max" ? "max" : "-1", context.name_of(host.cgroup.cpu_file))};
  return answer;
}

std::optional<DoctorAnswer> look_at_cpu_affinity(const DoctorContext& context) {
  const HostFacts& host = context.inputs.host;
  const auto allowed = static_cast<int>(host.cpus_allowed.size());
  const int asked = context.prepares() ? context.inputs.settings.cores : 0;
  if (allowed >= host.cores_online && asked <= allowed) return fine(fmt::format("all {} CPUs", host.cores_online));
  DoctorAnswer answer{asked > allowed ? DoctorStatus::problem : DoctorStatus::note,
                      fmt::format("{} of {} CPUs may be used, by affinity (taskset) or a cgroup's cpuset", allowed, host.cores_online),
                      {},
                      {}};
  if (asked > allowed) answer.found += fmt::format("; --cores {} asks for more", asked);
  const std::string all = context.read("/sys/devices/system/cpu/online").text.value_or("");
  answer.fix = "The result holds for these CPUs. Start from a shell that has all of them:";
  if (all.empty() || allowed >= host.cores_online) {
    answer.fix = fmt::format("Pass at most --cores {}.", allowed);
    return answer;
  }
  if (!context.in_container()) answer.commands = {{DoctorCommand::Where::here, fmt::format("taskset -pc {} $$", all)}};
  if (context.in_container())
    answer.commands = context.launch("--cpuset-cpus=" + all, fmt::format("resources: {{limits: {{cpu: \"{}\"}}}}", host.cores_online));
  return answer;
}

std::optional<DoctorAnswer> look_at_workers(const DoctorContext& context) {
  if (!context.prepares()) return std::nullopt;
  const HostFacts& host = context.inputs.host;
  const int workers = context.workers();
  const int cores = std::min<int>(context.cores(), host.worker_count());
  const std::string found = fmt::format("{} prep worker{} on {} usable core{}", workers, workers == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
  const DoctorCommand as_many{
      DoctorCommand::Where::here,
      fmt::format("dsanalyze profile {} --workers {}", context.inputs.index ? shell_word(context.inputs.settings.dataset) : "DATASET", cores)};
  if (workers > cores)
    return DoctorAnswer{DoctorStatus::warning, found, "Leave --workers out, which chooses them by the cores, or ask for as many:", {as_many}};
  if (workers < cores)
    return DoctorAnswer{DoctorStatus::note, found, fmt::format("P is that of {} of the cores. For all of them:", workers), {as_many}};
  if (workers > host.cores_physical)
    return DoctorAnswer{DoctorStatus::note,
                        fmt::format("{}, which are {} cores with hyper-threads", found, host.cores_physical),
                        fmt::format("Two threads of one core give less than two cores. Pass --cores {} for P of whole cores.", host.cores_physical),
                        {}};
  return fine(found);
}

std::optional<DoctorAnswer> look_at_frequency(const DoctorContext& context) {
  const std::string cpus = "/sys/devices/system/cpu/";
  std::map<std::string, int> governors;
  std::string driver;
  int held_below = 0;
  for (const int cpu : context.inputs.host.cpus_allowed) {
    const std::string folder = fmt::format("{}cpu{}/cpufreq/", cpus, cpu);
    const KernelText governor = context.read(folder + "scaling_governor");
    if (!governor.text && std::filesystem::exists(context.place(folder))) return not_known(governor.reason);
    if (!governor.text) return not_known("the kernel shows no frequency scaling, as in most virtual machines, where the host decides");
    ++governors[*governor.text];
    driver = context.read(folder + "scaling_driver").text.value_or("");
    double most = 0;
    double limit = 0;
    std::istringstream(context.read(folder + "cpuinfo_max_freq").text.value_or("")) >> most;
    std::istringstream(context.read(folder + "scaling_max_freq").text.value_or("")) >> limit;
    held_below += most > 0 && limit > 0 && limit < 0.99 * most ? 1 : 0;
  }
  if (governors.empty()) return not_known("this process may use no CPU that the kernel names");
  // Drivers with a governor of their own call the one that goes by load "powersave" too.
  const bool own_governor = driver == "intel_pstate" || driver == "amd-pstate-epp";
  const bool slow = governors.contains("powersave") && !own_governor;
  const bool all_fast = governors.size() == 1 && governors.contains("performance");
  if (all_fast && held_below == 0) return fine("governor performance");
  DoctorAnswer answer{slow || held_below > 0 ? DoctorStatus::warning : DoctorStatus::note,
                      fmt::format("governor {}{}", counted(governors), driver.empty() ? "" : fmt::format(" (driver {})", driver)),
                      {},
                      {}};
  if (held_below > 0) answer.found += fmt::format("; {} CPUs are held below their highest frequency", held_below);
  answer.fix = "Fix the frequency while measuring:";
  const std::string sudo = !context.in_container() && context.system.is_root() ? "" : "sudo ";
  const auto where = context.in_container() ? DoctorCommand::Where::host : DoctorCommand::Where::here;
  if (!all_fast) answer.commands.push_back({where, fmt::format("echo performance | {}tee {}cpu*/cpufreq/scaling_governor", sudo, cpus)});
  if (held_below > 0)
    answer.commands.push_back({where, fmt::format("for f in {}cpu*/cpufreq; do {}cp $f/cpuinfo_max_freq $f/scaling_max_freq; done", cpus, sudo)});
  return answer;
}

std::optional<DoctorAnswer> look_at_steal(const DoctorContext& context) {
  const std::vector<int>& cpus = context.inputs.host.cpus_allowed;
  const KernelText before = context.read("/proc/stat");
  if (!before.text) return not_known(before.reason);
  const auto since_start = ticks_of(*before.text, cpus);
  if (!since_start) return not_known("/proc/stat does not tell how much was stolen");
  Ticks now;
  if (context.inputs.depth == DoctorInputs::Depth::thorough) {
    context.system.burn(watch_seconds);
    const auto after = ticks_of(context.read("/proc/stat").text.value_or(""), cpus);
    if (after) now = {after->wanted - since_start->wanted, after->stolen - since_start->stolen};
  }
  const double all = stolen_share(*since_start);
  const double lately = now.stolen > 1 ? stolen_share(now) : 0;
  const std::string found = fmt::format("{} of the CPU time asked for since the start{}", format_share(all),
                                        context.inputs.depth == DoctorInputs::Depth::thorough
                                            ? fmt::format(", {} while watched for {}", format_share(lately), format_seconds(watch_seconds))
                                            : "");
  if (all < much_stolen && lately < much_stolen) return fine(found);
  return DoctorAnswer{
      DoctorStatus::warning,
      found + " went to other guests of this machine's host",
      "Nothing here helps: take a machine with cores of its own (a dedicated instance, CPU pinning on the host), and repeat measurements "
      "at other times of the day.",
      {}};
}

std::optional<DoctorAnswer> look_at_other_processes(const DoctorContext& context) {
  if (context.inputs.depth != DoctorInputs::Depth::thorough) return std::nullopt;
  const HostFacts& host = context.inputs.host;
  ProcessWatch processes(context.inputs.root);
  processes.look();
  const CpuSample before = sample_cpu(host, context.inputs.root);
  context.system.burn(processes_seconds);
  const CpuSample after = sample_cpu(host, context.inputs.root);
  processes.look();
  if (before.wall_seconds == 0) return not_known("/proc/stat does not tell what the CPUs do");
  const BackgroundLoad load = background_load(before, after, host, processes);
  const std::string found =
      fmt::format("they took {} of the CPU while watched for {}", format_share(load.cpu_fraction), format_seconds(processes_seconds));
  if (load.cpu_fraction < much_taken) return fine(found);
  DoctorAnswer answer{
      DoctorStatus::warning, fmt::format("{}: {}", found, load_text(load)), "Stop them while measuring, or the result holds beside them only.", {}};
  std::vector<int> numbers;
  for (const auto& each : load.processes) numbers.push_back(each.pid);
  if (!numbers.empty()) {
    answer.fix += " What they are:";
    answer.commands = {{DoctorCommand::Where::here, fmt::format("ps -o pid,user,pcpu,etime,args -p {}", fmt::join(numbers, ","))}};
  }
  return answer;
}

}  // namespace dsanalyze
