#include "storage_group.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cmath>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "control_group.hpp"

namespace dsanalyze {
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
