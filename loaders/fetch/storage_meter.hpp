#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/units.hpp"
#include "core/index.hpp"

namespace dsanalyze {

/// What really reached storage, by the kernel's counters of the filesystem under a path. Threads: any.
class StorageMeter {
 public:
  /// Whose reads the counter counts.
  enum class Scope : std::uint8_t { none, process, client };

  /// Looks up the filesystem under `path` (mountinfo) and picks its counters: /proc/self/io for filesystems on block devices (with the device's own
  /// counter beside it, /sys/dev/block); the client's for NFS (mountstats), Lustre (osc stats) and Ceph (debugfs, root only); none for FUSE and
  /// others that count nothing, and for block devices that memory or a file is behind. `root` stands for "/" in tests.
  explicit StorageMeter(const std::filesystem::path& path, const std::filesystem::path& root = "/");

  /// Bytes that this process, or all of this client, had fetched from storage so far (scope()); nullopt where nothing can tell.
  [[nodiscard]] std::optional<Bytes> process_bytes() const;
  /// Bytes that the device delivered to anyone; nullopt where there is none.
  [[nodiscard]] std::optional<Bytes> device_bytes() const;

  [[nodiscard]] const std::string& filesystem() const { return m_filesystem; }
  /// Why what the device delivers may come from memory ("loop0 reads from the file ..."); empty where nothing says so.
  [[nodiscard]] const std::string& memory_behind() const { return m_memory_behind; }
  [[nodiscard]] const std::string& device() const { return m_device; }  ///< "vda", "server:/export", "none"
  [[nodiscard]] bool can_tell() const { return m_source != Source::none; }
  [[nodiscard]] Scope scope() const;
  /// The same by the name of a filesystem alone ("ext4"), where its counters can be read.
  [[nodiscard]] static Scope scope_on(std::string_view filesystem);
  /// Whether this counter counts what is read where `other` was picked: not of filesystems whose counter is another or none, or that keep files in
  /// memory.
  [[nodiscard]] bool counts_reads_of(const StorageMeter& other) const;
  /// "process and block-layer counters", "NFS mount counters", "nothing: ..." with the reason.
  [[nodiscard]] const std::string& method() const { return m_method; }

 private:
  enum class Source { none, process_io, nfs, lustre, ceph };
  Source m_source = Source::none;
  std::filesystem::path m_root;
  std::string m_filesystem, m_device, m_method, m_mount_point, m_memory_behind;
  std::filesystem::path m_block_stat;
};

/// Files that were read cold, and what a meter counted of it. Some filesystems (GPFS, BeeGFS, some FUSE) leave the process's counter at nothing, and
/// a counter that never moves proves nothing by standing still.
struct MeterTrial {
  Bytes read = 0;
  Bytes counted = 0;
  std::uint32_t files = 0;
  std::uint32_t files_seen = 0;  ///< whose first page the kernel said to be absent before, and present after
  /// True where at least half was counted: a page may have stayed in memory because another process holds it.
  [[nodiscard]] bool moved() const { return read > 0 && counted * 2 >= read; }
  /// Whether the page cache tells here what was read: an absent page is then one that has to come from storage.
  [[nodiscard]] bool pages_tell() const { return files > 0 && files_seen * 2 >= files; }
};
/// Reads the beginnings of a few of these files of the index, cold, at most half a MiB in all. Ends early when asked to stop.
MeterTrial try_meter(const StorageMeter& meter, const DatasetIndex& index, std::span<const std::uint32_t> files, const std::stop_token& stop);

/// What of the dataset's files lies in the kernel's page cache.
struct Residency {
  Bytes looked_at = 0;
  Bytes resident = 0;
  [[nodiscard]] double fraction() const { return looked_at > 0 ? static_cast<double>(resident) / static_cast<double>(looked_at) : 0; }
};
/// Looks at up to `most_files` files of the index, spread evenly: mincore where we own the file, else a read that may not wait (RWF_NOWAIT).
Residency page_cache_residency(const DatasetIndex& index, std::uint32_t most_files);
/// Drops the pages of the index's own files, and of nothing else, from the page cache; dirty ones are written back first. Returns files that could
/// not be opened.
/// Ends early when asked to stop.
std::uint32_t drop_from_page_cache(const DatasetIndex& index, const std::stop_token& stop);

/// A filesystem that holds files of a dataset: folders and files may be links to others than the root's.
struct StoragePlace {
  StorageMeter meter;                ///< as picked for its first file
  std::vector<std::uint32_t> files;  ///< of the index, that lie there
};

/// What is asked of the system, so that tests can answer.
struct SystemStorage {
  /// The device that the file lies on, where links are followed; nothing where there is no such file.
  std::function<std::optional<std::uint64_t>(const std::filesystem::path&)> device_of;
  std::filesystem::path root = "/";  ///< as StorageMeter's
};
SystemStorage system_storage();

/// Every filesystem that holds files of the index, by the devices that they lie on; files that are gone are left out. A stat a file, which servers
/// are not asked for anew. Ends early when asked to stop.
std::vector<StoragePlace> storage_places(const DatasetIndex& index, const SystemStorage& system, const std::stop_token& stop);

/// Why `meter` proves nothing of a run over all of the places, with a file and its filesystem; "" where it counts every one of them. Of one place
/// alone, what the meter says of itself and what it counts is the answer.
std::string uncounted_place(const StorageMeter& meter, const DatasetIndex& index, std::span<const StoragePlace> places);

}  // namespace dsanalyze
