#include "memory_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "cgroup_paths.hpp"
#include "control_group.hpp"

namespace dsanalyze {
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

}  // namespace dsanalyze
