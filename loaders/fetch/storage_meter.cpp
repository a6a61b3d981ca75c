#include "storage_meter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "base/host/mounts.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

std::optional<Bytes> read_process_io(const std::filesystem::path& root) {
  std::ifstream io(root / "proc/self/io");
  for (std::string key; io >> key;) {
    Bytes value = 0;
    io >> value;
    if (key == "read_bytes:") return value;
  }
  return std::nullopt;
}

/// The fifth figure of "bytes:" under the mount: bytes read from the server, for any process.
std::optional<Bytes> read_nfs_bytes(const std::filesystem::path& root, const std::string& mount_point) {
  std::ifstream stats(root / "proc/self/mountstats");
  bool inside = false;
  for (std::string line; std::getline(stats, line);) {
    if (line.starts_with("device ")) inside = line.find(" mounted on " + mount_point + " with ") != std::string::npos;
    const auto at = line.find("bytes:");
    if (!inside || at == std::string::npos) continue;
    std::istringstream figures(line.substr(at + 6));
    std::array<Bytes, 5> values{};
    for (auto& value : values) figures >> value;
    if (figures) return values[4];
  }
  return std::nullopt;
}

/// The file's path of each of `folder`/*/`file`.
std::vector<std::filesystem::path> files_of_each(const std::filesystem::path& folder, const std::filesystem::path& file) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    files.push_back(each->path() / file);
  return files;
}

/// "read_bytes N samples [bytes] MIN MAX SUM" of every object storage client: bytes that came from the servers, for every mount and process.
std::optional<Bytes> read_lustre_bytes(const std::filesystem::path& root) {
  std::optional<Bytes> all;
  for (const char* const folder : {"proc/fs/lustre/osc", "sys/kernel/debug/lustre/osc"}) {
    for (const std::filesystem::path& file : files_of_each(root / folder, "stats")) {
      std::ifstream stats(file);
      if (stats && !all) all = 0;  // a client that has read nothing has no such line yet
      for (std::string line; std::getline(stats, line);) {
        std::istringstream words(line);
        std::string key, samples, unit;
        Bytes count = 0, least = 0, most = 0, sum = 0;
        if (words >> key >> count >> samples >> unit >> least >> most >> sum && key == "read_bytes") *all += sum;
      }
    }
    if (all) break;
  }
  return all;
}

/// "read COUNT MEAN MIN MAX SUM" of every Ceph client: bytes that came from the servers, for every mount and process.
std::optional<Bytes> read_ceph_bytes(const std::filesystem::path& root) {
  std::optional<Bytes> all;
  for (const std::filesystem::path& file : files_of_each(root / "sys/kernel/debug/ceph", "metrics/size")) {
    std::ifstream stats(file);
    for (std::string line; std::getline(stats, line);) {
      std::istringstream words(line);
      std::string key;
      Bytes count = 0, mean = 0, least = 0, most = 0, sum = 0;
      if (words >> key >> count >> mean >> least >> most >> sum && key == "read") all = all.value_or(0) + sum;
    }
  }
  return all;
}

std::string device_number_of(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
}

}  // namespace

StorageMeter::StorageMeter(const std::filesystem::path& path, const std::filesystem::path& root) : m_root(root) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::weakly_canonical(path, error);
  MountEntry mount = mount_of(error ? path : absolute, root).value_or(MountEntry{});
  if (mount.device_number.empty()) mount.device_number = device_number_of(path);  // a chroot: its root is no mount of this namespace's table
  m_filesystem = mount.filesystem.empty() ? "unknown" : mount.filesystem;
  m_mount_point = mount.point;
  m_device = mount.source.empty() ? "none" : mount.source;
  BlockDevice block = block_device_at(root / "sys/dev/block" / mount.device_number);
  if (!block.name.empty()) {
    m_device = block.name;
    m_block_stat = root / "sys/dev/block" / mount.device_number / "stat";
  }
  // Filesystems that join devices (btrfs) have a number of their own; what is mounted names one of them.
  if (block.name.empty() && mount.source.starts_with("/dev/"))
    block = block_device_at(root / "sys/class/block" / std::filesystem::path(mount.source).filename());
  m_memory_behind = memory_behind_disk(block.disk, root);
  if (!m_memory_behind.empty()) {
    m_method = "nothing: " + m_memory_behind;
  } else if (m_filesystem.starts_with("nfs")) {
    if (read_nfs_bytes(m_root, m_mount_point)) {
      m_source = Source::nfs;
      m_method = "NFS mount counters (mountstats)";
    } else {
      m_method = "nothing: the NFS mount has no readable mountstats";
    }
  } else if (m_filesystem == "lustre") {
    m_source = read_lustre_bytes(m_root) ? Source::lustre : Source::none;
    m_method = m_source == Source::none ? "nothing: the Lustre client's osc stats cannot be read" : "Lustre client counters (osc stats)";
  } else if (m_filesystem == "ceph") {
    m_source = read_ceph_bytes(m_root) ? Source::ceph : Source::none;
    m_method =
        m_source == Source::none ? "nothing: the Ceph client's counters cannot be read (debugfs, root only)" : "Ceph client counters (debugfs)";
  } else if (scope_on(m_filesystem) == Scope::none || (m_filesystem == "unknown" && m_block_stat.empty())) {
    m_method = fmt::format("nothing: {} counts no bytes from its storage per process", m_filesystem);
  } else if (!read_process_io(m_root)) {
    m_method = "nothing: /proc/self/io cannot be read here";
  } else {
    m_source = Source::process_io;
    m_method = m_block_stat.empty() ? "process counters (/proc/self/io)" : "process counters (/proc/self/io), block layer beside them";
  }
}

StorageMeter::Scope StorageMeter::scope() const {
  if (m_source == Source::none) return Scope::none;
  return m_source == Source::process_io ? Scope::process : Scope::client;
}

StorageMeter::Scope StorageMeter::scope_on(std::string_view filesystem) {
  if (filesystem.starts_with("nfs") || filesystem == "lustre" || filesystem == "ceph") return Scope::client;
  constexpr std::array without = {"9p", "virtiofs", "cifs", "smb3", "gpfs", "beegfs"};
  return filesystem.starts_with("fuse") || std::ranges::find(without, filesystem) != without.end() ? Scope::none : Scope::process;
}

bool StorageMeter::counts_reads_of(const StorageMeter& other) const {
  constexpr std::array in_memory = {"tmpfs", "ramfs", "hugetlbfs"};
  if (std::ranges::find(in_memory, other.m_filesystem) != in_memory.end()) return false;
  if (m_source == Source::none || other.m_source != m_source) return false;
  return m_source != Source::nfs || other.m_mount_point == m_mount_point;
}

std::optional<Bytes> StorageMeter::process_bytes() const {
  switch (m_source) {
    case Source::process_io:
      return read_process_io(m_root);
    case Source::nfs:
      return read_nfs_bytes(m_root, m_mount_point);
    case Source::lustre:
      return read_lustre_bytes(m_root);
    case Source::ceph:
      return read_ceph_bytes(m_root);
    case Source::none:
      break;
  }
  return std::nullopt;
}

std::optional<Bytes> StorageMeter::device_bytes() const {
  if (m_block_stat.empty()) return std::nullopt;
  constexpr Bytes sector = 512;
  std::ifstream stat(m_block_stat);
  Bytes reads = 0, merged = 0, sectors = 0;
  if (!(stat >> reads >> merged >> sectors)) return std::nullopt;
  return sectors * sector;
}

namespace {

std::filesystem::path path_of(const DatasetIndex& index, std::uint32_t file) {
  return std::filesystem::path(index.facts().root) / index.file_path(file);
}

std::optional<std::uint64_t> device_of_file(const std::filesystem::path& path) {
  struct statx facts {};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &facts) != 0) return std::nullopt;
  return std::uint64_t{facts.stx_dev_major} << 32 | facts.stx_dev_minor;
}

}  // namespace

SystemStorage system_storage() { return {device_of_file, "/"}; }

std::vector<StoragePlace> storage_places(const DatasetIndex& index, const SystemStorage& system, const std::stop_token& stop) {
  std::vector<StoragePlace> places;
  std::map<std::uint64_t, std::size_t> known;
  for (std::uint32_t file = 0; file < index.file_count() && !stop.stop_requested(); ++file) {
    const std::filesystem::path path = path_of(index, file);
    const auto device = system.device_of(path);
    if (!device) continue;
    const auto [place, is_new] = known.try_emplace(*device, places.size());
    if (is_new) places.push_back({StorageMeter(path, system.root), {}});
    places[place->second].files.push_back(file);
  }
  return places;
}

std::string uncounted_place(const StorageMeter& meter, const DatasetIndex& index, std::span<const StoragePlace> places) {
  const auto in_memory = std::ranges::find_if(places, [](const StoragePlace& place) { return !place.meter.memory_behind().empty(); });
  if (in_memory != places.end())
    return fmt::format("{} lies on {}; {}", path_of(index, in_memory->files.front()).string(), in_memory->meter.device(),
                       in_memory->meter.memory_behind());
  const bool is_one_filesystem =
      places.size() == 1 && places[0].meter.filesystem() == meter.filesystem() && places[0].meter.device() == meter.device();
  if (is_one_filesystem) return {};
  const auto found = std::ranges::find_if(places, [&](const StoragePlace& place) { return !meter.counts_reads_of(place.meter); });
  if (found == places.end()) return {};
  return fmt::format("{} lies on {}, and what is read there is not counted", path_of(index, found->files.front()).string(),
                     found->meter.filesystem());
}

namespace {

constexpr std::size_t most_tried = 8;
constexpr std::size_t most_tried_bytes = std::size_t{64} << 10;

/// Whether the file's first page lies in memory; nothing where the filesystem does not tell.
std::optional<bool> begins_in_memory(int file) {
  char byte = 0;
  const iovec vector{&byte, 1};
  const ssize_t got = preadv2(file, &vector, 1, 0, RWF_NOWAIT);
  if (got < 0 && errno != EAGAIN) return std::nullopt;
  return got == 1;
}

/// Reads the file's beginning, cold as far as the kernel lets go of its pages.
void read_cold(const std::filesystem::path& path, std::vector<std::byte>& buffer, MeterTrial& trial) {
  const FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!file.valid()) return;
  fdatasync(file.get());  // dirty pages are not dropped
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  ++trial.files;
  const auto before = begins_in_memory(file.get());
  Bytes done = 0;
  while (done < buffer.size()) {
    const ssize_t got = pread(file.get(), buffer.data() + done, buffer.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<Bytes>(got);
  }
  if (before == false && begins_in_memory(file.get()) == true) ++trial.files_seen;
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  trial.read += done;
}

}  // namespace

MeterTrial try_meter(const StorageMeter& meter, const DatasetIndex& index, std::span<const std::uint32_t> files, const std::stop_token& stop) {
  MeterTrial trial;
  const auto before = meter.process_bytes();
  std::vector<std::byte> buffer(most_tried_bytes);
  const std::size_t tried = std::min(files.size(), most_tried);
  for (std::size_t i = 0; i < tried && !stop.stop_requested(); ++i) {
    read_cold(std::filesystem::path(index.facts().root) / index.file_path(files[i * files.size() / tried]), buffer, trial);
  }
  const auto after = meter.process_bytes();
  if (before && after) trial.counted = *after - *before;
  return trial;
}

}  // namespace dsanalyze
