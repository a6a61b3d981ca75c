#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "control_group.hpp"
#include "host.hpp"
#include "mounts.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

// v1 writes "no limit" as the largest multiple of a page below 2^63.
constexpr Bytes unlimited = Bytes{1} << 62;

std::optional<std::string> content_of(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return std::nullopt;  // a file that a group does not have sets no limit
  }
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::optional<std::int64_t> to_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;  // "max" is none
}

std::optional<std::int64_t> integer_in(const fs::path& path) {
  const auto content = content_of(path);
  return content ? to_integer(*content) : std::nullopt;
}

struct Mount {
  std::string type;  // "cgroup" or "cgroup2"
  fs::path root;     // the group at which it is mounted
  fs::path point;
  std::vector<std::string> controllers;  // v1: "cpu", "memory", ... among other options
};

std::vector<Mount> cgroup_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  for (const MountEntry& entry : read_mounts(root)) {
    if (entry.filesystem == "cgroup" || entry.filesystem == "cgroup2")
      mounts.push_back({entry.filesystem, entry.inside, entry.point, split(entry.filesystem_options, ',')});
  }
  return mounts;
}

/// A hierarchy that this process is in, as /proc/self/cgroup lists it.
struct Membership {
  std::vector<std::string> controllers;  // empty for v2
  std::string path;
};

std::vector<Membership> memberships(const std::string& cgroup_file) {
  std::vector<Membership> all;
  for (const std::string& line : split(cgroup_file, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    all.push_back({split(line.substr(first + 1, second - first - 1), ','), without_octal_escapes(line.substr(second + 1))});
  }
  return all;
}

/// The folders from a process's own group up to the highest that is mounted.
std::vector<fs::path> folders_up(const fs::path& own_path, const Mount& mount, const fs::path& root) {
  const fs::path top = root / mount.point.relative_path();
  fs::path below = own_path.lexically_relative(mount.root);
  // In a container the own path may lie outside of what is mounted; its group is then the mount's root.
  if (below.empty() || below == "." || *below.begin() == "..") return {top};
  std::vector<fs::path> folders;
  for (; !below.empty(); below = below.parent_path()) folders.push_back(top / below);
  folders.push_back(top);
  return folders;
}

struct Hierarchy {
  int version;
  std::vector<fs::path> folders;
};

std::optional<Hierarchy> hierarchy_of(const std::string& controller, const std::vector<Mount>& mounts, const std::vector<Membership>& members,
                                      const fs::path& root) {
  const auto mount_with = [&](const std::string& type, bool any) {
    return std::ranges::find_if(mounts, [&](const Mount& mount) {
      return mount.type == type && (any || std::ranges::find(mount.controllers, controller) != mount.controllers.end());
    });
  };
  const auto first = mount_with("cgroup", false);
  const auto mount = first != mounts.end() ? first : mount_with("cgroup2", true);
  if (mount == mounts.end()) return std::nullopt;
  const int version = mount->type == "cgroup" ? 1 : 2;
  const auto member = std::ranges::find_if(members, [&](const Membership& membership) {
    return version == 2 ? membership.controllers.empty() : std::ranges::find(membership.controllers, controller) != membership.controllers.end();
  });
  return Hierarchy{version, folders_up(member == members.end() ? fs::path("/") : fs::path(member->path), *mount, root)};
}

std::optional<double> cpu_quota(const fs::path& folder, int version) {
  std::optional<std::int64_t> quota;
  std::optional<std::int64_t> period;
  if (version == 1) {
    quota = integer_in(folder / "cpu.cfs_quota_us");
    period = integer_in(folder / "cpu.cfs_period_us");
  } else {
    const auto fields = split(content_of(folder / "cpu.max").value_or(""), ' ');
    if (fields.size() == 2) {
      quota = to_integer(fields[0]);
      period = to_integer(fields[1]);
    }
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

struct MemoryLimit {
  Bytes limit;
  Bytes in_use;
  fs::path file;
  [[nodiscard]] Bytes left() const { return limit - std::min(in_use, limit); }
};

std::optional<MemoryLimit> memory_limit(const fs::path& folder, int version) {
  fs::path file = folder / (version == 1 ? "memory.limit_in_bytes" : "memory.max");
  std::optional<std::int64_t> limit = integer_in(file);
  const auto high = version == 2 ? integer_in(folder / "memory.high") : std::nullopt;
  if (high && *high < limit.value_or(std::numeric_limits<std::int64_t>::max())) {
    limit = high;
    file = folder / "memory.high";
  }
  if (!limit || *limit < 0 || static_cast<Bytes>(*limit) >= unlimited) return std::nullopt;
  const auto usage =
      static_cast<Bytes>(std::max<std::int64_t>(integer_in(folder / (version == 1 ? "memory.usage_in_bytes" : "memory.current")).value_or(0), 0));
  const Bytes inactive = cgroup_statistic(folder / "memory.stat", version == 1 ? "total_inactive_file" : "inactive_file");
  return MemoryLimit{static_cast<Bytes>(*limit), usage - std::min(usage, inactive), std::move(file)};
}

/// The group that leaves least; the same files in both versions.
void read_threads(const std::vector<fs::path>& folders, CgroupLimits& limits) {
  for (const fs::path& folder : folders) {
    const auto limit = integer_in(folder / "pids.max");
    if (!limit || *limit < 0) continue;
    const std::int64_t left = std::max<std::int64_t>(*limit - integer_in(folder / "pids.current").value_or(0), 0);
    if (limits.threads_left && static_cast<std::uint64_t>(left) >= *limits.threads_left) continue;
    limits.threads_left = static_cast<std::uint64_t>(left);
    limits.threads_file = folder / "pids.max";
  }
}

}  // namespace

Bytes cgroup_statistic(const fs::path& file, const std::string& name) {
  std::istringstream lines(content_of(file).value_or(""));
  std::string key;
  for (Bytes value = 0; lines >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

std::optional<OwnControlGroup> own_control_group(const std::string& controller, const fs::path& root) {
  const auto mounts = cgroup_mounts(root);
  const auto members = memberships(content_of(root / "proc/self/cgroup").value_or(""));
  const auto hierarchy = hierarchy_of(controller, mounts, members, root);
  if (!hierarchy) return std::nullopt;
  return OwnControlGroup{hierarchy->version, hierarchy->folders.front()};
}

CgroupLimits read_cgroup_limits(const fs::path& root) {
  const auto mounts = cgroup_mounts(root);
  const auto members = memberships(content_of(root / "proc/self/cgroup").value_or(""));
  CgroupLimits limits;
  if (const auto cpu = hierarchy_of("cpu", mounts, members, root)) {
    limits.version = cpu->version;
    for (const fs::path& folder : cpu->folders) {
      const auto cores = cpu_quota(folder, cpu->version);
      if (!cores || *cores >= limits.cpu_cores.value_or(std::numeric_limits<double>::infinity())) continue;
      limits.cpu_cores = cores;
      limits.cpu_file = folder / (cpu->version == 1 ? "cpu.cfs_quota_us" : "cpu.max");
    }
  }
  if (const auto pids = hierarchy_of("pids", mounts, members, root)) read_threads(pids->folders, limits);
  if (const auto memory = hierarchy_of("memory", mounts, members, root)) {
    limits.version = limits.version == 0 ? memory->version : std::min(limits.version, memory->version);
    std::optional<MemoryLimit> tightest;
    for (const fs::path& folder : memory->folders) {
      const auto here = memory_limit(folder, memory->version);
      if (here && (!tightest || here->left() < tightest->left())) tightest = here;
    }
    if (tightest) {
      limits.memory_limit = tightest->limit;
      limits.memory_in_use = tightest->in_use;
      limits.memory_file = tightest->file;
    }
  }
  return limits;
}

}  // namespace dsanalyze
