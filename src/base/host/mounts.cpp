#include "mounts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

bool holds(const std::filesystem::path& point, const std::filesystem::path& path) {
  return std::mismatch(point.begin(), point.end(), path.begin(), path.end()).first == point.end();
}

}  // namespace

std::string without_octal_escapes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    const char* const digits = text.data() + at + 1;
    if (text[at] == '\\' && at + 3 < text.size() && std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      out += static_cast<char>(code);
      at += 3;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::vector<MountEntry> read_mounts(const std::filesystem::path& root) {
  std::string content;
  try {
    content = read_file(root / "proc/self/mountinfo");
  } catch (const Error&) {
    return {};
  }
  std::vector<MountEntry> mounts;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, number, inside, point, options, field, type, source, more;
    fields >> id >> parent >> number >> inside >> point >> options;
    while (fields >> field && field != "-") continue;
    if (!(fields >> type)) continue;
    fields >> source >> more;
    int mount_id = 0;
    std::from_chars(id.data(), id.data() + id.size(), mount_id);
    mounts.push_back({mount_id, number, without_octal_escapes(inside), without_octal_escapes(point), options, type, without_octal_escapes(source),
                      without_octal_escapes(more)});
  }
  return mounts;
}

std::optional<MountEntry> mount_of(const std::filesystem::path& path, const std::filesystem::path& root) {
  std::optional<MountEntry> best;
  for (MountEntry& mount : read_mounts(root)) {
    if (holds(mount.point, path) && (!best || mount.point.native().size() >= best->point.native().size())) best = std::move(mount);
  }
  return best;
}

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
