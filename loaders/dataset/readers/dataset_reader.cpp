#include "dataset_reader.hpp"

#include <array>

#include "format_names.hpp"
#include "label_table.hpp"
#include "npy_header.hpp"

namespace dsanalyze {
namespace {

bool is_image_bytes(std::string_view first_bytes) { return !image_extension_of_bytes(first_bytes).empty(); }
bool is_array_name(std::string_view file_name) { return is_npy_name(file_name) && !is_labels_name(file_name); }

constexpr std::array all_readers{
    DatasetReader{"folder", "image files", is_image_name, is_image_bytes, read_image_folder},
    DatasetReader{"tar", "tar shards", is_tar_name, is_tar_bytes, read_tar_shards},
    DatasetReader{"npy", "NumPy arrays", is_array_name, is_npy_bytes, read_npy_arrays},
};

}  // namespace

std::span<const DatasetReader> dataset_readers() { return all_readers; }

FolderLabels labels_of_folders(const DatasetFiles& files) {
  if (files.keys.wants_labels()) return number_labels(files.listing, files.choice);
  return {std::vector<std::uint32_t>(files.listing.size(), 0), {no_class_name}, {}};
}

DatasetIndex::Facts start_facts(const DatasetFiles& files) {
  DatasetIndex::Facts facts;
  facts.root = files.root.string();
  facts.source = files.source;
  facts.format = files.choice.reader->format;
  facts.image_key = files.keys.image;
  facts.label_key = files.keys.label;
  facts.skipped = files.choice.skipped.names;
  facts.skipped_count = files.choice.skipped.count;
  facts.findings = files.choice.findings;
  if (!files.source.empty()) return facts;
  for (const ListedFolder& folder : files.listing) facts.folders.push_back({folder.path, folder.changed_nanoseconds});
  return facts;
}

}  // namespace dsanalyze
