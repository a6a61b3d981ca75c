#include "dataset_reader.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <filesystem>

#include "file_window.hpp"
#include "format_names.hpp"
#include "label_table.hpp"
#include "loaders/dataset/dataset.hpp"
#include "npy_header.hpp"
#include "tar_shard.hpp"

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

namespace {

std::string name_in_tar(const DatasetIndex& index, const IndexRecord& record) {
  const std::string_view shard = index.file_path(record.file);
  const std::string member = member_name_of(index, record);
  return member.empty() ? fmt::format("{} (offset {})", shard, record.offset) : fmt::format("{}: {} (offset {})", shard, member, record.offset);
}

std::string name_in_array(const DatasetIndex& index, const IndexRecord& record) {
  if (const auto row = row_of(index, record)) return fmt::format("{}: row {}", index.file_path(record.file), *row);
  return std::string(index.file_path(record.file));
}

}  // namespace

std::string member_name_of(const DatasetIndex& index, const IndexRecord& record) {
  try {
    const std::filesystem::path file = std::filesystem::path(index.facts().root) / index.file_path(record.file);
    return tar_member_at(file, record.offset, record.length);
  } catch (const std::exception&) {  // whatever keeps it from being read, the place in the shard is a name too
    return {};
  }
}

std::optional<std::uint64_t> row_of(const DatasetIndex& index, const IndexRecord& record) {
  const DatasetIndex::Facts& facts = index.facts();
  if (facts.format != "npy" || !facts.array || facts.array->sample_bytes == 0) return std::nullopt;
  try {
    FileWindow window(std::filesystem::path(facts.root) / index.file_path(record.file));
    const NpyHeader header = parse_npy_header(window.at(0, npy_header_bytes(window.at(0, npy_preamble_bytes))));
    const bool holds_rows = header.shape.size() == facts.array->shape.size() + 1;
    if (holds_rows && record.offset >= header.header_bytes) return (record.offset - header.header_bytes) / facts.array->sample_bytes;
  } catch (const std::exception&) {  // as above
    return std::nullopt;
  }
  return std::nullopt;
}

std::string sample_name(const DatasetIndex& index, SampleId sample) {
  if (sample >= index.size()) return fmt::format("sample {}", sample);
  const IndexRecord& record = index[sample];
  if (index.facts().format == "tar") return name_in_tar(index, record);
  if (index.facts().format == "npy") return name_in_array(index, record);
  const std::string_view path = index.file_path(record.file);
  return path.empty() ? fmt::format("sample {}", sample) : std::string(path);
}

}  // namespace dsanalyze
