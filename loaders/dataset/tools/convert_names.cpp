#include "convert_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/dataset/readers/sample_member.hpp"
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

}  // namespace dsanalyze
