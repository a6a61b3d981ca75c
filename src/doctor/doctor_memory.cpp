#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/text/text.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

constexpr double profile_share = 0.6;  // of what is available: what a profile holds at most (plan_profile)
constexpr Bytes little = Bytes{1} << 30;

Bytes left_in_group(const CgroupLimits& group) { return *group.memory_limit - std::min(*group.memory_limit, group.memory_in_use); }

/// Whether the cgroup leaves less than the machine has.
bool group_binds(const HostFacts& host) { return host.cgroup.memory_limit && left_in_group(host.cgroup) <= host.memory_usable; }

struct Demand {
  Bytes bytes = 0;
  bool typed_bytes = false;  // a share of the dataset is kept on a subset that fits
};

/// What --cache-size asks for; nullopt where it leaves that open.
std::optional<Demand> cache_demand(const DoctorContext& context) {
  const auto& size = context.inputs.settings.cache_size;
  if (!context.holds_cache() || !size) return std::nullopt;
  if (!context.inputs.index) return size->kind == ByteAmount::Kind::bytes ? std::optional(Demand{size->bytes, true}) : std::nullopt;
  const Bytes dataset = context.inputs.index->facts().total_bytes;
  return Demand{std::min(size->of(dataset), dataset), size->kind == ByteAmount::Kind::bytes};
}

/// The status of a cache of so much in so much memory, with what it means.
DoctorAnswer cache_answer(const std::string& found, const std::optional<Demand>& demand, Bytes usable) {
  if (!demand) {
    if (usable >= little) return fine(found);
    return {
        DoctorStatus::warning, found, "Batches alone may need as much: stop what else is running, or pass a small --batch-size and --subset.", {}};
  }
  const auto room = static_cast<Bytes>(profile_share * static_cast<double>(usable));
  const std::string text = fmt::format("{}; the cache is to have {}", found, format_bytes(demand->bytes));
  if (demand->bytes <= room) return fine(text);
  if (!demand->typed_bytes) {
    return {DoctorStatus::note, text, "A profile keeps the share on a subset of the dataset that fits; training itself needs the whole.", {}};
  }
  std::string typed = format_bytes(room);
  std::erase(typed, ' ');
  const bool too_much = demand->bytes > usable;
  return {too_much ? DoctorStatus::problem : DoctorStatus::warning,
          text,
          fmt::format("A profile takes at most {:.0f} % of what is free. Pass --cache-size {}, or a share of the dataset (--cache-size 35%).",
                      profile_share * 100, typed),
          {}};
}

std::string bracketed(const std::string& choices) {
  const std::size_t begin = choices.find('[');
  const std::size_t end = choices.find(']', begin);
  return begin == std::string::npos || end == std::string::npos ? choices : choices.substr(begin + 1, end - begin - 1);
}

/// The lines of /proc/swaps below its heading: areas, and how much of them is used.
struct Swap {
  std::string areas;
  Bytes size = 0;
  Bytes used = 0;
};

Swap parse_swaps(const std::string& text) {
  Swap swap;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::string name, type;
    Bytes size = 0, used = 0;
    if (!(fields >> name >> type >> size >> used)) continue;
    swap.areas += (swap.areas.empty() ? "" : ", ") + printable(name);
    swap.size += size * 1024;
    swap.used += used * 1024;
  }
  return swap;
}

}  // namespace

std::optional<DoctorAnswer> look_at_memory_limit(const DoctorContext& context) {
  const HostFacts& host = context.inputs.host;
  if (host.cgroup.version == 0 && context.in_container())
    return not_known("this container shows no cgroups, so whether it has a limit of memory is not known");
  if (!host.cgroup.memory_limit || *host.cgroup.memory_limit >= host.memory_total) return fine("no limit below the machine's memory");
  const std::string file = context.name_of(host.cgroup.memory_file);
  const Bytes left = left_in_group(host.cgroup);
  const std::string found =
      fmt::format("the cgroup allows {} ({}), of which {} are left", format_bytes(*host.cgroup.memory_limit), file, format_bytes(left));
  DoctorAnswer answer = group_binds(host) ? cache_answer(found, cache_demand(context), left) : fine(found);
  if (answer.status == DoctorStatus::ok) {
    answer.status = DoctorStatus::note;
    answer.fix = "A cache of automatic size takes no more. For a larger one raise the limit:";
  }
  const Bytes gibibytes = std::max<Bytes>((host.memory_total >> 30) * 3 / 4, 1);
  if (context.in_container())
    answer.commands = context.launch(fmt::format("--memory={}g", gibibytes), fmt::format("resources: {{limits: {{memory: {}Gi}}}}", gibibytes));
  else
    answer.commands = {context.write_file(host.cgroup.version == 1 ? "-1" : "max", file)};
  return answer;
}

std::optional<DoctorAnswer> look_at_memory_for_cache(const DoctorContext& context) {
  const HostFacts& host = context.inputs.host;
  if (group_binds(host)) return std::nullopt;
  const std::string found = fmt::format("{} of {} are available", format_bytes(host.memory_usable), format_bytes(host.memory_total));
  return cache_answer(found, cache_demand(context), host.memory_usable);
}

std::optional<DoctorAnswer> look_at_swap(const DoctorContext& context) {
  if (!context.holds_cache()) return std::nullopt;
  const KernelText swaps = context.read("/proc/swaps");
  if (!swaps.text) return not_known(swaps.reason);
  const Swap swap = parse_swaps(*swaps.text);
  if (swap.size == 0) return fine("none");
  const HostFacts& host = context.inputs.host;
  const auto of_group =
      host.cgroup.memory_file.empty() ? KernelText{} : context.read(context.name_of(host.cgroup.memory_file.parent_path() / "memory.swap.max"));
  if (of_group.text == "0") return fine("the cgroup may not swap");
  const std::string swappiness = context.read("/proc/sys/vm/swappiness").text.value_or("not known");
  if (swappiness == "0") return fine(fmt::format("{}, and vm.swappiness is 0: only to avoid running out of memory", swap.areas));
  const auto demand = cache_demand(context);
  const bool tight = demand && static_cast<double>(demand->bytes) > 0.5 * static_cast<double>(host.memory_usable);
  DoctorAnswer answer{
      swap.used > 0 || tight ? DoctorStatus::warning : DoctorStatus::note,
      fmt::format("{} on {}, {} in use; vm.swappiness is {}", format_bytes(swap.size), swap.areas, format_bytes(swap.used), swappiness),
      "Keep the cache in memory:",
      {context.as_root("swapoff -a"), context.as_root("sysctl vm.swappiness=1")}};
  const Bytes gibibytes = std::max<Bytes>(host.memory_usable >> 30, 1);
  for (DoctorCommand& command : context.launch(fmt::format("--memory={0}g --memory-swap={0}g", gibibytes), ""))
    answer.commands.push_back(std::move(command));
  return answer;
}

std::optional<DoctorAnswer> look_at_huge_pages(const DoctorContext& context) {
  if (context.inputs.index && !context.reads_files()) return std::nullopt;
  const std::string file = "/sys/kernel/mm/transparent_hugepage/enabled";
  const KernelText enabled = context.read(file);
  if (!enabled.text) return not_known(enabled.reason);
  const std::string mode = bracketed(*enabled.text);
  if (mode == "always" || mode == "madvise") return fine(fmt::format("transparent huge pages: {}", mode));
  return DoctorAnswer{
      DoctorStatus::warning, fmt::format("transparent huge pages: {}", mode), "Let programs ask for them:", {context.write_file("madvise", file)}};
}

std::optional<DoctorAnswer> look_at_numa(const DoctorContext& context) {
  const HostFacts& host = context.inputs.host;
  const std::string folder = "/sys/devices/system/node";
  if (!std::filesystem::exists(context.place(folder))) {
    if (std::filesystem::exists(context.place("/sys/devices/system/cpu"))) return fine("one node: the kernel has no NUMA");
    return not_known("/sys/devices/system/node is not there");
  }
  struct Node {
    int number;
    int cpus;
  };
  std::vector<Node> nodes;
  for (const std::string& name : context.names_in(folder)) {
    const auto numbers = name.starts_with("node") ? parse_cpu_list(name.substr(4)) : std::vector<int>{};
    const auto list = numbers.empty() ? KernelText{} : context.read(fmt::format("{}/{}/cpulist", folder, name));
    if (!list.text) continue;
    const auto cpus = parse_cpu_list(*list.text);
    const auto allowed = std::ranges::count_if(cpus, [&](int cpu) { return std::ranges::find(host.cpus_allowed, cpu) != host.cpus_allowed.end(); });
    if (allowed > 0) nodes.push_back({numbers.front(), static_cast<int>(allowed)});
  }
  if (nodes.empty()) return not_known(fmt::format("{} names no node of the CPUs allowed", folder));
  if (nodes.size() == 1) return fine(fmt::format("the CPUs allowed are of one node ({})", nodes.front().number));
  const Node largest = *std::ranges::max_element(nodes, {}, &Node::cpus);
  const bool fits_one = context.workers() <= largest.cpus;
  DoctorAnswer answer{fits_one ? DoctorStatus::warning : DoctorStatus::note,
                      fmt::format("{} nodes, and nothing binds threads or memory to one of them", nodes.size()),
                      {},
                      {}};
  answer.fix = fits_one ? fmt::format("{} workers fit on node {}:", context.workers(), largest.number)
                        : fmt::format("To see what one node gives, measure on its {} CPUs alone:", largest.cpus);
  const std::string dataset = context.inputs.index ? shell_word(context.inputs.settings.dataset) : "DATASET";
  answer.commands = {
      {DoctorCommand::Where::here, fmt::format("numactl --cpunodebind={0} --membind={0} dsanalyze profile {1}", largest.number, dataset)}};
  for (DoctorCommand& command : context.launch(fmt::format("--cpuset-mems={}", largest.number), "")) answer.commands.push_back(std::move(command));
  return answer;
}

}  // namespace dsanalyze
