#include "convert_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/error.hpp"
#include "loaders/dataset/readers/label_table.hpp"

namespace dsanalyze {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Whether someone named the labels: without names they are called by their numbers.
bool have_names(const std::vector<std::string>& labels) {
  for (std::size_t label = 0; label < labels.size(); ++label) {
    if (labels[label] != std::to_string(label)) return true;
  }
  return false;
}

/// Folders number labels by their order, so labels without samples need one each: sparse numbers would make folders beyond number. Labels with names
/// are no accident, however few samples there are.
void require_few_empty(const DatasetIndex& index) {
  constexpr std::uint64_t always_made = 1000;
  constexpr std::uint64_t made_at_most = 10'000;
  constexpr std::uint64_t a_sample = 10;
  constexpr std::uint64_t with_names_at_most = 100'000;
  std::vector<bool> has_samples(index.labels().size(), false);
  std::uint64_t empty = has_samples.size();
  for (const IndexRecord& record : index.records()) {
    if (!record.has_label() || has_samples[record.label]) continue;
    has_samples[record.label] = true;
    --empty;
  }
  if (empty <= with_names_at_most && have_names(index.labels())) return;
  if (empty <= always_made || (empty <= made_at_most && empty <= a_sample * index.size())) return;
  throw Error(
      fmt::format("a folder gives its label by its place among the others, and labels up to {} would need {} folders without samples beside {} with "
                  "some. Convert to tar or npy, which keep labels as numbers, or count the labels through from 0 first",
                  has_samples.size() - 1, empty, has_samples.size() - empty));
}

/// A label's name as one part of a path that is not hidden.
std::string as_folder(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  if (!name.empty() && name.front() == '.') name.insert(0, "_");
  return name;
}

/// Names as they are, numbers with leading zeros; the root for samples of no class.
std::vector<std::string> plain_folders(const DatasetIndex& index) {
  const std::vector<std::string>& labels = index.labels();
  const bool all_numbers = std::all_of(labels.begin(), labels.end(), is_number);
  std::size_t widest = 0;
  for (const std::string& label : labels) widest = std::max(widest, label.size());
  std::vector<std::string> folders;
  for (const std::string& label : labels) {
    if (label == no_class_name) {
      folders.emplace_back();
    } else {
      folders.push_back(all_numbers ? std::string(widest - label.size(), '0') + label : as_folder(label));
    }
  }
  return folders;
}

std::vector<std::string> numbered_folders(const DatasetIndex& index) {
  const std::size_t digits = std::to_string(index.labels().size() - 1).size();
  std::vector<std::string> folders;
  for (std::size_t label = 0; label < index.labels().size(); ++label) {
    const std::string name = as_folder(index.labels()[label]);
    folders.push_back(fmt::format("{:0{}}{}{}", label, digits, name.empty() ? "" : "-", name));
  }
  return folders;
}

/// Whether a reader numbers the folders as they stand here: in byte order, each once, the root's own files behind them.
bool keeps_numbers(const DatasetIndex& index, const std::vector<std::string>& folders, const std::vector<std::string>& sample_names) {
  auto classes_end = folders.end();
  if (folders.back().empty() && index.labels().back() == no_class_name) --classes_end;
  for (auto folder = folders.begin(); folder != classes_end; ++folder) {
    if (folder->empty() || (folder != folders.begin() && *std::prev(folder) >= *folder)) return false;
  }
  for (std::size_t sample = 0; sample < sample_names.size(); ++sample) {
    if (!index.records()[sample].has_label()) continue;
    const bool lies_in_root = folders[index.records()[sample].label].empty();
    if (lies_in_root && sample_names[sample].find('/') != std::string::npos) return false;
  }
  return true;
}

}  // namespace

bool has_labels(const DatasetIndex& index) {
  return index.labels().size() > 1 || (index.labels().size() == 1 && index.labels().front() != no_class_name);
}

ClassFolders class_folders(const DatasetIndex& index, const std::vector<std::string>& sample_names) {
  if (!has_labels(index)) return {};
  require_few_empty(index);
  ClassFolders plain{plain_folders(index), false};
  if (keeps_numbers(index, plain.names, sample_names)) return plain;
  return {numbered_folders(index), true};
}

}  // namespace dsanalyze
