#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "core/index.hpp"
#include "folder_listing.hpp"
#include "label_table.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/sample_choice.hpp"

namespace dsanalyze {

/// The files of a dataset, as a reader gets them.
struct DatasetFiles {
  std::filesystem::path root;
  std::string source;  ///< as DatasetIndex::Facts
  std::vector<ListedFolder> listing;
  SampleChoice choice;  ///< of the listed files, those of this reader
  SampleKeys keys;
};

struct ReaderContext {
  const OpenOptions& options;
  EventSink& events;
  const std::stop_token& stop;
};

/// A format that is read: how its files are known, and what makes an index of them. One line of the table below each; fetching, caching and prep know
/// nothing of formats but extents.
struct DatasetReader {
  std::string_view format;  ///< Facts::format
  std::string_view files;   ///< what its files are called in messages: "tar shards"
  bool (*is_its_name)(std::string_view file_name);
  bool (*is_its_bytes)(std::string_view first_bytes);  ///< 512 of them
  /// Throws Error naming file and cause, Interrupted on a stop.
  std::shared_ptr<const DatasetIndex> (*read)(const DatasetFiles& files, const ReaderContext& context);
};

std::span<const DatasetReader> dataset_readers();

/// number_labels() of the files, or one class of all where labels are not wanted.
FolderLabels labels_of_folders(const DatasetFiles& files);

/// The facts that follow from the files: root, source, format, keys, what was left out, folders and when they changed, findings of the choice.
DatasetIndex::Facts start_facts(const DatasetFiles& files);

std::shared_ptr<const DatasetIndex> read_image_folder(const DatasetFiles& files, const ReaderContext& context);
std::shared_ptr<const DatasetIndex> read_tar_shards(const DatasetFiles& files, const ReaderContext& context);
std::shared_ptr<const DatasetIndex> read_npy_arrays(const DatasetFiles& files, const ReaderContext& context);

/// The name of the member of a tar shard that holds the sample, as it stands in the archive; "" when the shard does not tell. Reads the shard.
std::string member_name_of(const DatasetIndex& index, const IndexRecord& record);
/// The row of an array file that the sample is; nothing when each file is a sample. Reads the file's header.
std::optional<std::uint64_t> row_of(const DatasetIndex& index, const IndexRecord& record);

}  // namespace dsanalyze
