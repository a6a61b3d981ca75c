#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// A line of /proc/self/mountinfo.
struct MountEntry {
  int id = 0;                      ///< of the mount, which fdinfo names too
  std::string device_number;       ///< "8:1"
  std::filesystem::path inside;    ///< what of the filesystem is mounted: its root, or a folder of a bind mount
  std::filesystem::path point;     ///< where
  std::string options;             ///< "rw,relatime", of this mount
  std::string filesystem;          ///< "ext4"
  std::string source;              ///< "/dev/sda1", "server:/export"
  std::string filesystem_options;  ///< "rw,errors=remount-ro", of the filesystem
};

/// All of <root>/proc/self/mountinfo in its order, later ones over earlier ones; lines that are none are left out. Empty if it cannot be read.
std::vector<MountEntry> read_mounts(const std::filesystem::path& root = "/");
/// The innermost mount that holds the absolute path `path`; of several on one point, the last. nullopt in a chroot, whose root is no mount.
std::optional<MountEntry> mount_of(const std::filesystem::path& path, const std::filesystem::path& root = "/");
/// mountinfo and cgroup files write blanks in paths as "\040".
std::string without_octal_escapes(std::string_view text);

/// A block device, by its link in /sys/dev/block, /sys/class/block or among the `slaves` of another; both names are empty where there is no such
/// link.
struct BlockDevice {
  std::string name;  ///< "vda1"
  std::string disk;  ///< that has the queue: "vda" of "vda1"
};
BlockDevice block_device_at(const std::filesystem::path& link);

/// Why reads of the disk may be answered from memory, although its counters say that it was read: "loop0 reads from the file /x.img, whose pages may
/// lie in memory", "zram0 is memory". Disks that make it up (device mapper) are looked at too. Empty where nothing says so.
std::string memory_behind_disk(const std::string& disk, const std::filesystem::path& root = "/");

}  // namespace dsanalyze
