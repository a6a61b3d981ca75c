#include "control_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "dsanalyze-";

/// Control files take one write of the whole text.
int write_control(const fs::path& file, const std::string& text) {
  const FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.valid()) return errno;
  return ::write(descriptor.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

/// Groups of processes that were killed: a group that holds a process cannot be removed. One whose maker lives is left alone, as the maker may
/// not have entered it yet.
void remove_left_over(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(name_prefix)) continue;
    pid_t maker = 0;
    const char* const end = name.data() + name.size();
    if (const auto [at, error] = std::from_chars(name.data() + name_prefix.size(), end, maker); error != std::errc{} || at != end) continue;
    if (maker > 0 && (maker == ::getpid() || (::kill(maker, 0) != 0 && errno == ESRCH))) ::rmdir(entry.path().c_str());
  }
}

/// Every process of the group goes to its parent.
void move_all(const fs::path& group, const fs::path& parent) {
  std::ifstream processes(group / "cgroup.procs");
  for (std::string process; processes >> process;) write_control(parent / "cgroup.procs", process);
}

}  // namespace

ControlGroup::ControlGroup(const Purpose& purpose, const fs::path& root) {
  auto own = own_control_group(purpose.controller, root);
  if (!own && purpose.controller_v2 != purpose.controller) own = own_control_group(purpose.controller_v2, root);
  if (!own) throw Error(fmt::format("{}: there is no {} cgroup; {}", purpose.cannot, purpose.controller, purpose.from_outside));
  m_version = own->version;
  m_parent = own->folder;
  remove_left_over(m_parent);
  m_group = m_parent / fmt::format("{}{}", name_prefix, ::getpid());
  if (::mkdir(m_group.c_str(), 0755) != 0) {
    throw Error(
        fmt::format("{}: making the cgroup {} failed ({}); {}", purpose.cannot, m_group.string(), describe_errno(errno), purpose.from_outside));
  }
  const bool has_controller = fs::exists(m_group / (m_version == 1 ? purpose.file_v1 : purpose.file_v2));
  const int refused = has_controller ? write("cgroup.procs", std::to_string(::getpid())) : EACCES;
  if (refused != 0) {
    ::rmdir(m_group.c_str());
    throw Error(fmt::format("{}: {} ({}); {}", purpose.cannot,
                            has_controller ? std::string("the cgroup does not take this process")
                                           : fmt::format("cgroups below the process's own have no {} controller", purpose.controller),
                            describe_errno(refused), purpose.from_outside));
  }
}

ControlGroup::~ControlGroup() {
  constexpr int most_looks = 200;
  // A process that was started in the group may still be ending: it goes to the parent as this one does, and no limit stays with it.
  move_all(m_group, m_parent);
  for (int look = 0; ::rmdir(m_group.c_str()) != 0 && errno == EBUSY && look < most_looks; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    move_all(m_group, m_parent);
  }
}

int ControlGroup::write(const std::string& file, const std::string& text) const { return write_control(m_group / file, text); }

namespace {

const ControlGroup::Purpose& memory_purpose() {
  static const ControlGroup::Purpose limiting{
      "memory",
      "memory",
      "memory.limit_in_bytes",
      "memory.max",
      "the page cache cannot be limited here",
      "as root it works on most machines; otherwise limit the whole run from outside: systemd-run --user --scope -p MemoryMax=4G dsanalyze profile "
      "..."};
  return limiting;
}

}  // namespace

MemoryGroup::MemoryGroup(const std::filesystem::path& root) : m_group(std::make_unique<ControlGroup>(memory_purpose(), root)) {}
MemoryGroup::~MemoryGroup() = default;

void MemoryGroup::limit(Bytes bytes) {
  const int refused = m_group->write(m_group->version() == 1 ? memory_purpose().file_v1 : memory_purpose().file_v2, std::to_string(bytes));
  // Busy: the kernel could not evict enough just now; what it could is evicted, and the next call goes further.
  if (refused != 0 && refused != EBUSY) {
    throw Error(fmt::format("the kernel refused a memory limit of {}: {}", format_bytes(bytes), describe_errno(refused)));
  }
}

MemoryGroup::Use MemoryGroup::use() const {
  const std::filesystem::path statistics = m_group->folder() / "memory.stat";
  const bool first = m_group->version() == 1;
  const Bytes cache = cgroup_statistic(statistics, first ? "cache" : "file");
  const Bytes shared = cgroup_statistic(statistics, "shmem");
  Use use;
  use.page_cache = cache - std::min(cache, shared);
  try {
    use.total = static_cast<Bytes>(std::stoull(read_file(m_group->folder() / (first ? "memory.usage_in_bytes" : "memory.current"))));
  } catch (const std::exception&) {
    use.total = cache;  // the group is gone
  }
  return use;
}

namespace {

namespace fs = std::filesystem;

const ControlGroup::Purpose& storage_purpose() {
  static const ControlGroup::Purpose limiting{"blkio",
                                              "io",
                                              "blkio.throttle.read_bps_device",
                                              "io.max",
                                              "reads cannot be limited here",
                                              "as root it works on most machines; otherwise limit the whole run from outside: systemd-run --scope -p "
                                              "\"IOReadBandwidthMax=/dev/DISK 200M\" dsanalyze ..."};
  return limiting;
}

}  // namespace

std::string disk_number_of(const fs::path& path, const fs::path& root) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw_errno("cannot look at", path.string(), errno);
  std::string number = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
  const fs::path device = root / "sys/dev/block" / number;
  if (!fs::exists(device)) throw Error(fmt::format("{} lies on no disk of this machine, so reads of it cannot be limited", path.string()));
  if (!fs::exists(device / "partition")) return number;
  // A partition is a folder below its disk's.
  std::string disk = read_file(fs::canonical(device).parent_path() / "dev");
  return disk.substr(0, disk.find('\n'));
}

StorageGroup::StorageGroup(const fs::path& path, double bytes_per_second, const fs::path& root) {
  const std::string disk = disk_number_of(path, root);
  m_group = std::make_unique<ControlGroup>(storage_purpose(), root);
  const auto limit = static_cast<unsigned long long>(std::llround(bytes_per_second));
  const bool first = m_group->version() == 1;
  const int refused = first ? m_group->write(storage_purpose().file_v1, fmt::format("{} {}", disk, limit))
                            : m_group->write(storage_purpose().file_v2, fmt::format("{} rbps={}", disk, limit));
  if (refused != 0)
    throw Error(fmt::format("the kernel refused to limit reads of disk {} to {}: {}", disk, format_bytes_per_second(bytes_per_second),
                            describe_errno(refused)));
}

StorageGroup::~StorageGroup() = default;

}  // namespace dsanalyze
