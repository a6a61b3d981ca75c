#include <fmt/format.h>

#include <algorithm>

#include "base/host/mounts.hpp"
#include "base/text/text.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t most_files_tried = 16;

/// A file with bytes for a try: the first such of a few that lie all over the index.
fs::path some_file(const DatasetIndex& index) {
  const std::uint32_t files = index.file_count();
  for (std::uint32_t i = 0; i < std::min(files, most_files_tried); ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * files / std::min(files, most_files_tried));
    fs::path path = fs::path(index.facts().root) / index.file_path(file);
    std::error_code error;
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) > 0 && !error) return path;
  }
  return {};
}

}  // namespace

DoctorCommand copy_of(const DatasetPlace& place) { return {DoctorCommand::Where::here, fmt::format("cp -r {} /LOCAL/DISK", shell_word(place.path))}; }

DatasetPlace find_dataset(const DoctorInputs& inputs, DoctorSystem& system) {
  DatasetPlace place;
  if (!inputs.index || inputs.settings.storage != Seam::real) return place;
  place.path = inputs.index->facts().root;
  place.file = some_file(*inputs.index);
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(place.path, error);
  std::string number = system.device_number(place.path);
  if (const auto mount = mount_of(error ? fs::path(place.path) : absolute, inputs.root)) {
    place.filesystem = mount->filesystem;
    place.source = mount->source;
    place.mount_point = mount->point;
    place.mount_options = mount->options + "," + mount->filesystem_options;
    if (number.empty()) number = mount->device_number;
  }
  BlockDevice device = block_device_at(inputs.root / "sys/dev/block" / number);
  // Filesystems that join devices (btrfs) have a number of their own; what is mounted names one of them.
  if (device.disk.empty() && place.source.starts_with("/dev/"))
    device = block_device_at(inputs.root / "sys/class/block" / fs::path(place.source).filename());
  place.device = device.name;
  place.disk = device.disk;
  place.memory_behind = memory_behind_disk(device.disk, inputs.root);
  if (!place.disk.empty()) {
    for (fs::directory_iterator at(inputs.root / "sys/block" / place.disk / "slaves", error), end; !error && at != end; at.increment(error))
      place.disks_below.push_back(at->path().filename());
    std::ranges::sort(place.disks_below);
  }
  return place;
}

}  // namespace dsanalyze
