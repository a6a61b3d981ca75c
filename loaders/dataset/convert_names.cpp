#include "convert_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "format_names.hpp"
#include "label_table.hpp"
#include "sample_choice.hpp"
#include "sample_member.hpp"
#include "tar_shard.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// Names of images tell their kind: a name that does not gets the extension that the bytes suggest.
std::string with_extension(const DatasetIndex& index, const IndexRecord& record, std::string name) {
  if (index.facts().array) return is_npy_name(name) ? name : name + ".npy";
  if (is_image_name(name)) return name;
  const std::string_view extension = image_extension_of_bytes(first_bytes(fs::path(index.facts().root) / index.file_path(record.file), 16));
  return name + std::string(extension.empty() ? ".jpg" : extension);
}

std::string own_name(const DatasetIndex& index, SampleId sample) {
  const IndexRecord& record = index[sample];
  if (index.facts().format == "tar") return member_name_of(index, record);
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

/// Label names as folders, in the same order when sorted by their bytes: numbers get leading zeros.
std::vector<std::string> class_folders(const DatasetIndex& index) {
  std::vector<std::string> folders;
  if (!has_labels(index)) return folders;
  std::size_t widest = 0;
  bool all_numbers = true;
  for (const std::string& label : index.labels()) {
    widest = std::max(widest, label.size());
    all_numbers &= !label.empty() && std::all_of(label.begin(), label.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  for (const std::string& label : index.labels()) {
    if (label == no_class_name) {
      folders.emplace_back();
      continue;
    }
    std::string folder = all_numbers ? std::string(widest - label.size(), '0') + label : label;
    std::replace(folder.begin(), folder.end(), '/', '_');
    if (folder.empty() || folder.front() == '.') folder.insert(0, "_");
    folders.push_back(std::move(folder));
  }
  return folders;
}

std::vector<std::string> cleaned_names(const DatasetIndex& index, ConvertRun& run) {
  std::vector<std::string> names(index.size());
  run.for_each(index.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) {
      const auto sample = static_cast<SampleId>(place);
      const std::string name = own_name(index, sample);
      names[place] = clean_path(name);
      if (!names[place].empty()) continue;
      run.leave_out(sample, name.empty() ? "its header cannot be read" : fmt::format("its name '{}' leads out of the destination", name));
    }
  });
  return names;
}

bool has_twins(const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(names.size());
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return !name.empty() && !seen.insert(name).second; });
}

/// Shards may use the same names; then each name gets its shard's before it.
void tell_shards_apart(const DatasetIndex& index, std::vector<std::string>& names) {
  if (index.facts().format != "tar" || !has_twins(names)) return;
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

bool has_labels(const DatasetIndex& index) {
  return index.labels().size() > 1 || (index.labels().size() == 1 && index.labels().front() != no_class_name);
}

std::vector<std::string> folder_names(const DatasetIndex& index, ConvertRun& run) {
  std::vector<std::string> names = cleaned_names(index, run);
  const std::vector<std::string> folders = class_folders(index);
  tell_shards_apart(index, names);
  for (std::size_t sample = 0; sample < names.size() && !folders.empty(); ++sample) {
    const std::string& folder = folders[index.records()[sample].label];
    const bool lies_there = names[sample].starts_with(folder + "/");
    if (!names[sample].empty() && !folder.empty() && !lies_there) names[sample] = folder + "/" + names[sample];
  }
  if (has_twins(names))
    throw Error("two samples of " + index.facts().root + " would get the same name; convert to tar instead, where names may differ");
  return names;
}

std::vector<std::string> member_names(const DatasetIndex& index, ConvertRun& run) {
  std::vector<std::string> names = cleaned_names(index, run);
  std::unordered_map<std::string, std::uint64_t> times;
  times.reserve(names.size());
  tell_shards_apart(index, names);
  for (std::string& name : names) {
    if (name.empty()) continue;
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

}  // namespace dsanalyze
