#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "storage_meter.hpp"

namespace dsanalyze {

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
