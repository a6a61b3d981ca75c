#include "convert_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/dataset_reader.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/dataset/readers/label_table.hpp"
#include "loaders/dataset/readers/tar_shard.hpp"
#include "loaders/dataset/sample_bytes.hpp"
#include "loaders/dataset/sample_choice.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// Names of images tell their kind: a name that does not gets the extension that the bytes suggest.
std::string with_extension(const DatasetIndex& index, const IndexRecord& record, std::string name) {
  if (index.facts().array) return is_npy_name(name) ? name : name + ".npy";
  if (is_image_name(name)) return name;
  const std::string_view extension =
      image_extension_of_bytes(first_bytes(fs::path(index.facts().root) / index.file_path(record.file), 16, record.offset));
  return name + std::string(extension.empty() ? ".jpg" : extension);
}

std::string own_name(const DatasetIndex& index, SampleId sample) {
  const IndexRecord& record = index[sample];
  if (index.facts().format == "tar") {
    const std::string member = member_name_of(index, record);
    return member.empty() ? member : with_extension(index, record, member);
  }
  if (const auto row = row_of(index, record)) return fmt::format("{:08}.npy", *row);
  return with_extension(index, record, std::string(index.file_path(record.file)));
}

/// "a/b.tar" as part of a path: "a_b".
std::string shard_part(const DatasetIndex& index, const IndexRecord& record) {
  std::string part(index.file_path(record.file));
  if (is_tar_name(part)) part.resize(part.size() - 4);
  std::replace(part.begin(), part.end(), '/', '_');
  return clean_path(part);
}

std::vector<std::string> cleaned_names(const DatasetIndex& index, ConvertRun& run) {
  std::vector<std::string> names(index.size());
  run.for_each(index.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) {
      const auto sample = static_cast<SampleId>(place);
      const std::string name = own_name(index, sample);
      if (const std::string cause = label_cause(index, sample); !cause.empty()) {  // no other's name is in its way
        run.leave_out(sample, cause);
        continue;
      }
      names[place] = clean_path(name);
      if (!names[place].empty()) continue;
      run.leave_out(sample, name.empty() ? "its header cannot be read" : fmt::format("its name '{}' leads out of the destination", name));
    }
  });
  return names;
}

/// Two samples of one name; nothing when there are none.
std::optional<std::pair<SampleId, SampleId>> find_twins(const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, SampleId> seen;
  seen.reserve(names.size());
  for (std::size_t place = 0; place < names.size(); ++place) {
    const auto sample = static_cast<SampleId>(place);
    if (names[place].empty()) continue;
    const auto [first, is_new] = seen.try_emplace(names[place], sample);
    if (!is_new) return std::pair(first->second, sample);
  }
  return std::nullopt;
}

/// Shards may use the same names; then each name gets its shard's before it.
void tell_shards_apart(const DatasetIndex& index, std::vector<std::string>& names) {
  if (index.facts().format != "tar" || !find_twins(names)) return;
  for (std::size_t sample = 0; sample < names.size(); ++sample) {
    if (!names[sample].empty()) names[sample] = shard_part(index, index.records()[sample]) + "/" + names[sample];
  }
}

}  // namespace

std::string clean_path(std::string_view path) {
  if (path.starts_with('/')) return {};
  std::string clean;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    std::string part(path.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    if (part.front() == '.') part.front() = '_';
    if (!clean.empty()) clean.push_back('/');
    clean.append(part);
  }
  return clean;
}

FolderNames folder_names(const DatasetIndex& index, ConvertRun& run) {
  FolderNames result;
  std::vector<std::string>& names = result.samples;
  names = cleaned_names(index, run);
  tell_shards_apart(index, names);
  const ClassFolders classes = class_folders(index, names);
  for (std::size_t sample = 0; sample < names.size() && !classes.names.empty(); ++sample) {
    if (!index.records()[sample].has_label()) continue;  // it fails when it is read
    const std::string& folder = classes.names[index.records()[sample].label];
    const bool lies_there = names[sample].starts_with(folder + "/");
    if (!names[sample].empty() && !folder.empty() && !lies_there) names[sample] = folder + "/" + names[sample];
  }
  if (const auto twins = find_twins(names)) {
    throw Error(fmt::format("{} and {} would both get the name {}; convert to tar instead, where names may differ", sample_name(index, twins->first),
                            sample_name(index, twins->second), names[twins->first]));
  }
  if (classes.are_numbered) {
    run.tell({"classes-numbered", Finding::Severity::warning,
              fmt::format("names of classes repeat, or are not in byte order: by them alone, labels would get other numbers. Folders are called by "
                          "number and name, for example {}",
                          classes.names.front())});
  }
  result.classes = classes.names;
  return result;
}

std::vector<std::string> member_names(const DatasetIndex& index, ConvertRun& run) {
  std::vector<std::string> names = cleaned_names(index, run);
  std::unordered_map<std::string, std::uint64_t> times;
  times.reserve(names.size());
  tell_shards_apart(index, names);
  for (std::string& name : names) {
    if (name.empty()) continue;
    while (is_about_the_shard(name)) name.erase(0, 1);  // no reader would look at it
    const std::size_t slash = name.rfind('/');
    const std::size_t dot = name.rfind('.');
    std::string key = name.substr(0, dot);
    std::replace(key.begin() + static_cast<std::ptrdiff_t>(slash == std::string::npos ? 0 : slash + 1), key.end(), '.', '_');
    // A key that is taken already (x.jpg beside x.png, or x.1.jpg beside x_1.jpg) gets a number.
    std::string unique = key;
    for (std::uint64_t number = 1; !times.try_emplace(unique, 1).second; ++number) unique = fmt::format("{}-{}", key, number + 1);
    name.replace(0, dot, unique);
  }
  return names;
}

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
