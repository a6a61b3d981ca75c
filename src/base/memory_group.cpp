#include "dsanalyze/base/memory_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cgroup_paths.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "dsanalyze-";
constexpr std::string_view from_outside =
    "as root it works on most machines; otherwise limit the whole run from outside: systemd-run --user --scope -p MemoryMax=4G dsanalyze profile ...";

/// Control files take one write of the whole text.
int write_control(const fs::path& file, const std::string& text) {
  const FileDescriptor descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.valid()) return errno;
  return ::write(descriptor.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

/// Groups of processes that were killed: a group that holds a process cannot be removed.
void remove_left_over(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().string().starts_with(name_prefix)) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

MemoryGroup::MemoryGroup(const fs::path& root) {
  const auto own = own_control_group("memory", root);
  if (!own) throw Error(fmt::format("the page cache cannot be limited here: there is no memory control group; {}", from_outside));
  m_version = own->version;
  m_parent = own->folder;
  remove_left_over(m_parent);
  m_group = m_parent / fmt::format("{}{}", name_prefix, ::getpid());
  if (::mkdir(m_group.c_str(), 0755) != 0) {
    throw Error(fmt::format("the page cache cannot be limited here: making the control group {} failed ({}); {}", m_group.string(),
                            describe_errno(errno), from_outside));
  }
  const bool has_controller = fs::exists(m_group / (m_version == 1 ? "memory.limit_in_bytes" : "memory.max"));
  const int refused = has_controller ? write_control(m_group / "cgroup.procs", std::to_string(::getpid())) : EACCES;
  if (refused != 0) {
    ::rmdir(m_group.c_str());
    throw Error(fmt::format(
        "the page cache cannot be limited here: {} ({}); {}",
        has_controller ? "the control group does not take this process" : "control groups below the process's own have no memory controller",
        describe_errno(refused), from_outside));
  }
}

MemoryGroup::~MemoryGroup() {
  write_control(m_parent / "cgroup.procs", std::to_string(::getpid()));
  ::rmdir(m_group.c_str());
}

void MemoryGroup::limit(Bytes bytes) {
  const int refused = write_control(m_group / (m_version == 1 ? "memory.limit_in_bytes" : "memory.max"), std::to_string(bytes));
  // Busy: the kernel could not evict enough just now; what it could is evicted, and the next call goes further.
  if (refused != 0 && refused != EBUSY) {
    throw Error(fmt::format("the kernel refused a memory limit of {}: {}", format_bytes(bytes), describe_errno(refused)));
  }
}

MemoryGroup::Use MemoryGroup::use() const {
  const fs::path statistics = m_group / "memory.stat";
  const Bytes cache = cgroup_statistic(statistics, m_version == 1 ? "cache" : "file");
  const Bytes shared = cgroup_statistic(statistics, "shmem");
  Use use;
  use.page_cache = cache - std::min(cache, shared);
  try {
    use.total = static_cast<Bytes>(std::stoull(read_file(m_group / (m_version == 1 ? "memory.usage_in_bytes" : "memory.current"))));
  } catch (const std::exception&) {
    use.total = cache;  // the group is gone
  }
  return use;
}

}  // namespace dsanalyze
