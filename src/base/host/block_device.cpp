#include "block_device.hpp"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr int max_depth = 8;  // of devices on devices

std::string memory_behind(const std::string& disk, const fs::path& root, int depth) {
  if (disk.empty()) return {};
  if (disk.starts_with("zram") || disk.starts_with("ram")) return disk + " is memory";
  const fs::path folder = root / "sys/block" / disk;
  std::ifstream backing(folder / "loop/backing_file");
  if (std::string file; std::getline(backing, file)) return fmt::format("{} reads from the file {}, whose pages may lie in memory", disk, file);
  std::error_code error;
  for (fs::directory_iterator below(folder / "slaves", error), end; !error && depth < max_depth && below != end; below.increment(error)) {
    const std::string why = memory_behind(block_device_at(below->path()).disk, root, depth + 1);
    if (!why.empty()) return fmt::format("{} lies on {}: {}", disk, below->path().filename().string(), why);
  }
  return {};
}

}  // namespace

BlockDevice block_device_at(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  if (error) return {};
  const bool is_partition = fs::exists(link / "partition", error);
  return {target.filename(), is_partition ? target.parent_path().filename() : target.filename()};
}

std::string memory_behind_disk(const std::string& disk, const fs::path& root) { return memory_behind(disk, root, 0); }

}  // namespace dsanalyze
