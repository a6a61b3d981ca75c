#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "dataset_reader.hpp"
#include "dataset_source.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "folder_listing.hpp"
#include "parallel_ranges.hpp"
#include "sample_choice.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

bool is_unchanged(const fs::path& root, const DatasetIndex::Facts::File& file) {
  struct stat facts {};
  if (stat((root / file.path).c_str(), &facts) != 0) return false;
  const auto modified = static_cast<std::int64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(facts.st_mtim.tv_nsec);
  return static_cast<std::uint64_t>(facts.st_size) == file.bytes && modified == file.modified_nanoseconds;
}

/// Whether every folder that the index was listed from, and every file that was looked into, is as it was then.
bool is_current(const DatasetIndex& index, const fs::path& root, int threads, const std::stop_token& stop) {
  const auto& folders = index.facts().folders;
  const auto& files = index.facts().files;
  const std::size_t count = folders.size() + files.size();
  if (count == 0) return false;
  std::vector<char> same(count, 0);
  parallel_ranges(count, 8, threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) {
      if (place >= folders.size()) {
        same[place] = is_unchanged(root, files[place - folders.size()]) ? 1 : 0;
        continue;
      }
      const fs::path folder = folders[place].path.empty() ? root : root / folders[place].path;
      same[place] = folder_modified_nanoseconds(folder) == folders[place].modified_nanoseconds ? 1 : 0;
    }
  });
  return std::all_of(same.begin(), same.end(), [](char one) { return one != 0; });
}

std::string identity_of(const DatasetIndex& index) { return index.facts().source.empty() ? index.facts().root : index.facts().source; }

bool belongs_to(const DatasetIndex& index, const DatasetSource& source) {
  return identity_of(index) == source.identity() && index.facts().root == source.root.string();
}

std::shared_ptr<const DatasetIndex> use_given_index(const fs::path& file, const DatasetSource& source, const OpenOptions& options, EventSink& events,
                                                    const std::stop_token& stop) {
  auto index = read_index_file(file);
  if (!belongs_to(*index, source)) {
    throw Error(fmt::format("the index file {} belongs to the dataset {}, not to {}; make one for this dataset with `dsanalyze dataset index`",
                            file.string(), identity_of(*index), source.identity()));
  }
  if (!is_current(*index, source.root, options.threads, stop)) {
    events.finding(
        {"index-outdated", Finding::Severity::warning,
         fmt::format("folders or shards of {} changed after the index file {} was made: samples that are gone will fail, new ones are left out. Make "
                     "it anew with `dsanalyze dataset index`.",
                     source.identity(), file.string())});
  }
  return index;
}

std::shared_ptr<const DatasetIndex> index_from_cache(const fs::path& given, const DatasetSource& source, const OpenOptions& options,
                                                     EventSink& events, const std::stop_token& stop) {
  try {
    const fs::path file = default_index_file(given);  // throws where the user has no folder for it: then there is no index either
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return nullptr;
    auto index = read_index_file(file);
    if (belongs_to(*index, source) && is_current(*index, source.root, options.threads, stop)) return index;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    events.note(fmt::format("the dataset is listed anew: {}", error.what()));
  }
  return nullptr;
}

std::vector<ListedFolder> list_source(const DatasetSource& source, const OpenOptions& options, EventSink& events, const std::stop_token& stop) {
  if (source.is_folder()) {
    return list_folder(source.root, options.threads, stop, [&](std::size_t folders, std::size_t files) {
      events.progress({fmt::format("listing {}: {} files in {} folders", source.root.string(), files, folders), -1, -1});
    });
  }
  ListedFolder folder;
  for (const std::string& file : source.files) folder.add(file);
  folder.sort();
  std::vector<ListedFolder> listing;
  listing.push_back(std::move(folder));
  return listing;
}

std::shared_ptr<const DatasetIndex> read_dataset(const DatasetSource& source, const OpenOptions& options, EventSink& events,
                                                 const std::stop_token& stop) {
  DatasetFiles files{source.root, source.name, list_source(source, options, events, stop), {}};
  files.choice = source.is_folder() ? choose_samples(source.root, files.listing) : choose_files(source, files.listing);
  if (files.choice.samples.size() >= UINT32_MAX) throw Error("the dataset " + source.identity() + " has more than 4,294,967,294 files; split it");
  return files.choice.reader->read(files, {options, events, stop});
}

}  // namespace

std::shared_ptr<const DatasetIndex> open_dataset(const fs::path& given, const OpenOptions& options, EventSink& events, const std::stop_token& stop) {
  const DatasetSource source = find_source(given);
  std::shared_ptr<const DatasetIndex> index;
  if (options.index_file) {
    index = use_given_index(*options.index_file, source, options, events, stop);
  } else {
    index = index_from_cache(given, source, options, events, stop);
    if (!index) index = read_dataset(source, options, events, stop);
  }
  for (const Finding& finding : index->facts().findings) events.finding(finding);
  return index;
}

}  // namespace dsanalyze
