#include "storage_places.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

namespace dsanalyze {
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

}  // namespace dsanalyze
