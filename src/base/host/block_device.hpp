#pragma once

#include <filesystem>
#include <string>

namespace dsanalyze {

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
