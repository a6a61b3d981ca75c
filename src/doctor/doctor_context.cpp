#include "doctor_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "core/cache_policy/cache_policy.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr Bytes largest_kernel_file = Bytes{16} << 20;

std::string content_or_nothing(const fs::path& path) {
  try {
    return read_file(path, largest_kernel_file);
  } catch (const Error&) {
    return "";
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Container named(std::string_view text) {
  if (text.find("kubepods") != std::string_view::npos) return Container::kubernetes;
  if (text.find("libpod") != std::string_view::npos || text.find("podman") != std::string_view::npos) return Container::podman;
  if (text.find("docker") != std::string_view::npos) return Container::docker;
  for (const std::string_view other : {"containerd", "lxc", "garden", "nspawn", "oci"})
    if (text.find(other) != std::string_view::npos) return Container::other;
  return Container::none;
}

/// What the first process was told: only root may look.
Container told_to_init(const fs::path& root) {
  const std::string environment = content_or_nothing(root / "proc/1/environ");
  constexpr std::string_view key = "container=";
  for (std::size_t at = 0; at < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view variable = std::string_view(environment).substr(at, end - at);
    if (variable.starts_with(key) && variable.size() > key.size()) {
      const Container container = named(variable.substr(key.size()));
      return container == Container::none ? Container::other : container;
    }
    at = end + 1;
  }
  return Container::none;
}

}  // namespace

std::string container_name(Container container) {
  static constexpr std::array<std::string_view, 5> names{"", "docker", "podman", "kubernetes", "other"};
  return std::string(names.at(static_cast<std::size_t>(container)));
}

Container find_container(const fs::path& root) {
  const Container by_group = named(content_or_nothing(root / "proc/self/cgroup"));
  if (by_group == Container::kubernetes || is_there(root / "var/run/secrets/kubernetes.io")) return Container::kubernetes;
  if (is_there(root / "run/.containerenv")) return Container::podman;
  if (is_there(root / ".dockerenv")) return Container::docker;
  if (by_group != Container::none) return by_group;
  return told_to_init(root);
}

DoctorAnswer fine(std::string found) { return {DoctorStatus::ok, std::move(found), {}, {}}; }

DoctorAnswer not_known(std::string reason) { return {DoctorStatus::unknown, std::move(reason), {}, {}}; }

DoctorContext::DoctorContext(const DoctorInputs& given_inputs, DoctorSystem& given_system)
    : inputs(given_inputs), system(given_system), container(find_container(given_inputs.root)), m_dataset(find_dataset(given_inputs, given_system)) {}

KernelText DoctorContext::read(const std::string& path) const {
  try {
    std::string text = read_file(place(path), largest_kernel_file);
    text.erase(text.find_last_not_of(" \t\n") + 1);
    return {std::move(text), {}};
  } catch (const Error& error) {
    return {std::nullopt, error.what()};
  }
}

std::vector<std::string> DoctorContext::names_in(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(place(folder), error), end; !error && at != end; at.increment(error)) names.push_back(at->path().filename());
  std::ranges::sort(names);
  return names;
}

std::string DoctorContext::name_of(const fs::path& below_root) const { return "/" + below_root.lexically_relative(inputs.root).string(); }

bool DoctorContext::holds_cache() const { return holds_samples(inputs.settings.cache); }

int DoctorContext::cores() const { return inputs.settings.cores > 0 ? inputs.settings.cores : inputs.host.worker_count(); }

int DoctorContext::workers() const { return inputs.settings.workers > 0 ? inputs.settings.workers : cores(); }

DoctorCommand DoctorContext::write_file(const std::string& text, const std::string& file) const {
  if (!in_container() && system.is_root()) return {DoctorCommand::Where::here, fmt::format("echo {} > {}", shell_word(text), shell_word(file))};
  return {in_container() ? DoctorCommand::Where::host : DoctorCommand::Where::here,
          fmt::format("echo {} | sudo tee {}", shell_word(text), shell_word(file))};
}

DoctorCommand DoctorContext::as_root(const std::string& command) const {
  if (in_container()) return {DoctorCommand::Where::host, "sudo " + command};
  return {DoctorCommand::Where::here, (system.is_root() ? "" : "sudo ") + command};
}

std::vector<DoctorCommand> DoctorContext::launch(const std::string& docker_options, const std::string& kubernetes) const {
  std::vector<DoctorCommand> commands;
  const bool by_kubernetes = container == Container::kubernetes || container == Container::other;
  const bool by_docker = in_container() && container != Container::kubernetes;
  if (by_docker && !docker_options.empty()) {
    const std::string program = container == Container::podman ? "podman" : "docker";
    commands.push_back({DoctorCommand::Where::launch, fmt::format("{} run {} IMAGE", program, docker_options)});
  }
  if (by_kubernetes && !kubernetes.empty()) commands.push_back({DoctorCommand::Where::launch, kubernetes});
  return commands;
}

namespace {

constexpr std::size_t most_processes = 5;
constexpr double worth_naming = 0.005;

double usable_seconds(const CpuSample& before, const CpuSample& after, const HostFacts& host) {
  return std::min(host.cores_usable, static_cast<double>(host.cpus_allowed.size())) * (after.wall_seconds - before.wall_seconds);
}

}  // namespace

BackgroundLoad background_load(const CpuSample& before, const CpuSample& after, const HostFacts& host, const ProcessWatch& processes) {
  BackgroundLoad load{others_cpu_share(before, after, host), {}};
  const double seconds = usable_seconds(before, after, host);
  if (!(seconds > 0)) return load;
  for (const ProcessUse& used : processes.used()) {
    const double share = used.cpu_seconds / seconds;
    if (load.processes.size() == most_processes || share < worth_naming) break;
    load.processes.push_back({used.pid, used.command, share});
  }
  return load;
}

std::string load_text(const BackgroundLoad& load) {
  if (load.processes.empty())
    return "no process that can be seen from here explains it; it ended meanwhile, runs outside of this container, or the hypervisor took the time";
  std::vector<std::string> names;
  names.reserve(load.processes.size());
  for (const auto& each : load.processes)
    names.push_back(fmt::format("{} (PID {}) {}", printable(each.command), each.pid, format_share(each.cpu_fraction)));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace dsanalyze
