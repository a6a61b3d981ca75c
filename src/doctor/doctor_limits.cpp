#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint64_t files_of_the_program = 64;  // libraries, the index, the cache's segments, standard streams
constexpr std::uint64_t files_kept = 64;            // shards that stay open (FetchOptions): in a quarter of the limit
constexpr std::uint64_t threads_of_the_program = 16;
constexpr std::uint64_t bytes_of_rings = std::uint64_t{1} << 20;

std::string limit_text(const std::optional<std::uint64_t>& limit) { return limit ? format_number(static_cast<double>(*limit)) : "unlimited"; }

bool at_least(const std::optional<std::uint64_t>& limit, std::uint64_t wanted) { return !limit || *limit >= wanted; }

bool reads_for_real(const DoctorContext& context) { return !context.inputs.index || context.reads_files(); }

/// "5.10.0-8-amd64" is older than 5.12.
bool older_than(const std::string& kernel, int major, int minor) {
  int first = 0;
  int second = 0;
  const char* const end = kernel.data() + kernel.size();
  const auto [point, error] = std::from_chars(kernel.data(), end, first);
  if (error != std::errc{}) return true;  // not known: rather look
  if (point != end && *point == '.') std::from_chars(point + 1, end, second);
  return first < major || (first == major && second < minor);
}

/// How to raise a limit of this shell: within the hard limit by itself, beyond it as root.
std::vector<DoctorCommand> raise(const DoctorContext& context, const DoctorSystem::Limits& limits, std::uint64_t wanted, const std::string& ulimit,
                                 std::uint64_t ulimit_unit, const std::string& prlimit, const std::string& docker) {
  if (at_least(limits.hard, wanted)) return {{DoctorCommand::Where::here, fmt::format("ulimit -{} {}", ulimit, wanted / ulimit_unit)}};
  if (context.in_container()) return context.launch(fmt::format("--ulimit {0}={1}:{1}", docker, wanted), "");
  return {{DoctorCommand::Where::here, fmt::format("{0}prlimit --pid $$ --{1}={2}:{2}", context.system.is_root() ? "" : "sudo ", prlimit, wanted)}};
}

}  // namespace

std::optional<DoctorAnswer> look_at_open_files(const DoctorContext& context) {
  if (!reads_for_real(context)) return std::nullopt;
  const auto limits = context.system.limit(DoctorSystem::Limit::open_files);
  const auto under_way = static_cast<std::uint64_t>(context.inputs.settings.fetch_concurrency);
  const std::uint64_t least = under_way + files_of_the_program / 2;
  const std::uint64_t wanted = std::max(4 * files_kept, under_way + files_kept + files_of_the_program);
  const std::string found =
      fmt::format("{} at once; {} reads in flight want {}", limit_text(limits.soft), under_way, format_number(static_cast<double>(wanted)));
  if (at_least(limits.soft, wanted)) return fine(found);
  DoctorAnswer answer{at_least(limits.soft, least) ? DoctorStatus::warning : DoctorStatus::problem, found, "Raise the limit of this shell:", {}};
  answer.commands = raise(context, limits, 4096, "n", 1, "nofile", "nofile");
  if (answer.commands.empty()) answer.fix = "Raise LimitNOFILE of the container runtime's service on the node: a Kubernetes manifest cannot.";
  return answer;
}

std::optional<DoctorAnswer> look_at_locked_memory(const DoctorContext& context) {
  if (!reads_for_real(context) || context.inputs.settings.io == IoEngine::pread) return std::nullopt;
  const auto limits = context.system.limit(DoctorSystem::Limit::locked_memory);
  const std::string found = limits.soft ? format_bytes(*limits.soft) : "unlimited";
  if (at_least(limits.soft, bytes_of_rings)) return fine(found);
  const bool counted = older_than(context.inputs.host.kernel, 5, 12);
  if (counted && context.system.is_root()) return fine(fmt::format("{}, which does not bind root", found));
  if (!counted) return fine(fmt::format("{}; this kernel does not count io_uring's rings", found));
  DoctorAnswer answer{
      DoctorStatus::warning, fmt::format("{}; io_uring's rings want {}", found, format_bytes(bytes_of_rings)), "Raise the limit of this shell:", {}};
  answer.commands = raise(context, limits, 8 * bytes_of_rings, "l", 1024, "memlock", "memlock");
  if (answer.commands.empty()) answer.fix = "Raise LimitMEMLOCK of the container runtime's service on the node: a Kubernetes manifest cannot.";
  return answer;
}

std::optional<DoctorAnswer> look_at_threads(const DoctorContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  const std::uint64_t wanted =
      static_cast<std::uint64_t>(context.workers()) + static_cast<std::uint64_t>(settings.fetch_concurrency) + threads_of_the_program;
  const auto limits = context.system.limit(DoctorSystem::Limit::processes);
  const auto& of_group = context.inputs.host.cgroup.threads_left;
  const std::string wants = fmt::format("about {} are wanted", wanted);
  if (of_group && *of_group < wanted) {
    DoctorAnswer answer{DoctorStatus::problem,
                        fmt::format("the cgroup allows {} more (pids.max); {}", limit_text(of_group), wants),
                        "Raise it, or pass fewer --workers and a smaller --io-depth:",
                        {}};
    answer.commands = context.launch("--pids-limit=4096", "");
    if (!context.in_container()) {
      answer.fix = "Pass fewer --workers and a smaller --io-depth, or lift the limit (systemd's TasksMax):";
      answer.commands = {context.write_file("max", context.name_of(context.inputs.host.cgroup.threads_file))};
    } else if (answer.commands.empty()) {
      answer.fix = "Pass fewer --workers and a smaller --io-depth, or raise podPidsLimit of the node's kubelet: a Kubernetes manifest cannot.";
    }
    return answer;
  }
  // Root's processes are not counted, others' are with all that this user runs.
  if (!context.system.is_root() && !at_least(limits.soft, wanted)) {
    DoctorAnswer answer{DoctorStatus::warning,
                        fmt::format("this user may run {} (ulimit -u); {}", limit_text(limits.soft), wants),
                        "Raise the limit of this shell:",
                        {}};
    answer.commands = raise(context, limits, 4096, "u", 1, "nproc", "nproc");
    return answer;
  }
  std::vector<std::string> allowed;
  if (of_group) allowed.push_back(fmt::format("the cgroup allows {} more", limit_text(of_group)));
  if (limits.soft && !context.system.is_root()) allowed.push_back(fmt::format("at most {} of this user's", limit_text(limits.soft)));
  return fine(allowed.empty() ? "no limit that matters" : fmt::format("{}; {}", fmt::join(allowed, ", "), wants));
}

}  // namespace dsanalyze
