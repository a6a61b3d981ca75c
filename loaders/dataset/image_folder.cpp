#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/loaders/dataset.hpp"
#include "folder_listing.hpp"
#include "format_names.hpp"
#include "parallel_ranges.hpp"
#include "sample_choice.hpp"
#include "sample_sizes.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view root_label = ".";

fs::path existing_folder(const fs::path& root) {
  struct stat facts {};
  if (stat(root.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) throw Error("there is no dataset at " + root.string() + ": no such folder; check the path");
    throw_errno("cannot open the dataset", root.string(), errno);
  }
  if (!S_ISDIR(facts.st_mode)) {
    const std::string name = root.filename().string();
    const UnreadFormat* format = unread_format_of_name(name);
    const std::string bytes = S_ISREG(facts.st_mode) ? first_bytes(root, 512) : std::string();
    if (format == nullptr) format = unread_format_of_bytes(bytes);
    if (format != nullptr) throw Error("the dataset " + root.string() + " is not a folder. " + not_yet(*format, root.string()));
    if (is_jpeg_bytes(bytes)) throw Error("the dataset " + root.string() + " is one JPEG file; give the folder that holds the files");
    throw Error("the dataset " + root.string() + " is not a folder; give a folder of JPEG files");
  }
  std::error_code failure;
  fs::path whole = fs::canonical(root, failure);
  if (failure) throw_errno("cannot open the dataset", root.string(), failure.value());
  return whole;
}

/// Whether every folder that the index was listed from is as it was then.
bool is_current(const DatasetIndex& index, const fs::path& root, int threads, const std::stop_token& stop) {
  const auto& folders = index.facts().folders;
  if (folders.empty()) return false;
  std::vector<char> same(folders.size(), 0);
  parallel_ranges(folders.size(), 8, threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) {
      const fs::path folder = folders[place].path.empty() ? root : root / folders[place].path;
      same[place] = folder_modified_nanoseconds(folder) == folders[place].modified_nanoseconds ? 1 : 0;
    }
  });
  return std::all_of(same.begin(), same.end(), [](char one) { return one != 0; });
}

std::shared_ptr<const DatasetIndex> use_given_index(const fs::path& file, const fs::path& root, const OpenOptions& options, EventSink& events,
                                                    const std::stop_token& stop) {
  auto index = read_index_file(file);
  if (index->facts().root != root.string()) {
    throw Error(fmt::format("the index file {} belongs to the dataset {}, not to {}; make one for this dataset with `dsanalyze dataset index`",
                            file.string(), index->facts().root, root.string()));
  }
  if (!is_current(*index, root, options.threads, stop)) {
    events.finding(
        {"index-outdated", Finding::Severity::warning,
         fmt::format(
             "folders of {} changed after the index file {} was made: files that are gone will fail, new ones are left out. Make it anew with "
             "`dsanalyze dataset index`.",
             root.string(), file.string())});
  }
  return index;
}

std::shared_ptr<const DatasetIndex> index_from_cache(const fs::path& root, const OpenOptions& options, EventSink& events,
                                                     const std::stop_token& stop) {
  try {
    const fs::path file = default_index_file(root);  // throws where the user has no folder for it: then there is no index either
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return nullptr;
    auto index = read_index_file(file);
    if (index->facts().root == root.string() && is_current(*index, root, options.threads, stop)) return index;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    events.note(fmt::format("the folder is listed anew: {}", error.what()));
  }
  return nullptr;
}

std::string path_of(const std::vector<ListedFolder>& listing, SampleChoice::Place place) { return listing[place.folder].relative_path(place.name); }

/// Size of a regular file; a link that leads nowhere counts as an empty sample, so that its loss is named when it is read.
std::optional<Bytes> size_of_file(const fs::path& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ELOOP) return Bytes{0};
    throw_errno("cannot ask for the size of", file.string(), errno);
  }
  if (!S_ISREG(facts.st_mode)) return std::nullopt;
  return static_cast<Bytes>(facts.st_size);
}

/// A number for each listed folder: that of its first-level folder among those that hold samples, in byte order.
std::vector<std::uint32_t> number_labels(const std::vector<ListedFolder>& listing, const SampleChoice& choice, std::vector<std::string>& names) {
  constexpr std::uint32_t none = UINT32_MAX;
  std::vector<char> holds_samples(listing.size(), 0);
  for (const auto& place : choice.samples) holds_samples[place.folder] = 1;
  for (std::size_t folder = 0; folder < listing.size(); ++folder) {
    if (holds_samples[folder] != 0)
      names.push_back(listing[folder].path.empty() ? std::string(root_label) : std::string(listing[folder].first_level()));
  }
  // The root's own files have label 0, whatever the class folders are called.
  const bool root_holds_samples = !names.empty() && holds_samples[0] != 0;
  std::sort(names.begin() + (root_holds_samples ? 1 : 0), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  std::vector<std::uint32_t> labels(listing.size(), none);
  for (std::size_t folder = 0; folder < listing.size(); ++folder) {
    if (holds_samples[folder] == 0) continue;
    const auto first_class = names.begin() + (root_holds_samples ? 1 : 0);
    labels[folder] = listing[folder].path.empty()
                         ? 0
                         : static_cast<std::uint32_t>(std::lower_bound(first_class, names.end(), listing[folder].first_level()) - names.begin());
  }
  return labels;
}

/// Of a sampled dataset: over the path and label of every listed sample, for most sizes are not known.
std::string digest_of_listing(const std::vector<ListedFolder>& listing, const SampleChoice& choice, const std::vector<std::uint32_t>& labels) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const auto& place : choice.samples) {
    const std::string path = path_of(listing, place);
    XXH3_128bits_update(state.get(), path.c_str(), path.size() + 1);
    XXH3_128bits_update(state.get(), &labels[place.folder], sizeof(std::uint32_t));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("sampled:{:016x}{:016x}", hash.high64, hash.low64);
}

std::shared_ptr<const DatasetIndex> build_index(const fs::path& root, const std::vector<ListedFolder>& listing, SampleChoice choice,
                                                const SampleSizes& sizes) {
  DatasetIndexBuilder builder;
  std::vector<std::string> names;
  const std::vector<std::uint32_t> labels = number_labels(listing, choice, names);
  for (const std::string& name : names) builder.add_label(name);
  Bytes bytes = 0;
  for (std::size_t sample = 0; sample < sizes.files.size(); ++sample) {
    const SampleChoice::Place place = choice.samples[sizes.files[sample]];
    IndexRecord record;
    record.file = builder.add_file(path_of(listing, place));
    record.length = sizes.bytes[sample];
    record.label = labels[place.folder];
    builder.add_sample(record);
    bytes += record.length;
  }

  DatasetIndex::Facts facts;
  facts.root = root.string();
  facts.format = "folder";
  facts.sizes_sampled = sizes.sampled;
  if (sizes.sampled) {
    facts.total_samples = choice.samples.size();
    const double mean_bytes = static_cast<double>(bytes) / static_cast<double>(sizes.files.size());
    facts.total_bytes = static_cast<Bytes>(std::llround(mean_bytes * static_cast<double>(choice.samples.size())));
    facts.digest = digest_of_listing(listing, choice, labels);
  } else {
    choice.skipped_count += choice.samples.size() - sizes.files.size();
  }
  facts.skipped = std::move(choice.skipped);
  facts.skipped_count = choice.skipped_count;
  for (const ListedFolder& folder : listing) facts.folders.push_back({folder.path, folder.modified_nanoseconds});
  return std::move(builder).build(std::move(facts));
}

}  // namespace

std::shared_ptr<const DatasetIndex> open_dataset(const fs::path& root, const OpenOptions& options, EventSink& events, const std::stop_token& stop) {
  const fs::path folder = existing_folder(root);
  if (options.index_file) return use_given_index(*options.index_file, folder, options, events, stop);
  if (auto index = index_from_cache(folder, options, events, stop)) return index;

  const auto listing = list_folder(folder, options.threads, stop, [&](std::size_t folders, std::size_t files) {
    events.progress({fmt::format("listing {}: {} files in {} folders", folder.string(), files, folders), -1, -1});
  });
  SampleChoice choice = choose_samples(folder, listing);
  if (choice.samples.size() >= UINT32_MAX) throw Error("the dataset " + folder.string() + " has more than 4,294,967,294 samples; split it");
  const auto count = static_cast<std::uint32_t>(choice.samples.size());
  events.progress({fmt::format("asking for the sizes of {} files", count), -1, -1});
  const SizeLimits limits{options.stat_budget_seconds, options.sampled_samples, options.seed, options.threads};
  const SampleSizes sizes = ask_sizes(
      count, [&](std::uint32_t file) { return size_of_file(folder / path_of(listing, choice.samples[file])); }, limits, *system_timing().clock, stop);
  if (sizes.files.empty())
    throw Error("the dataset " + folder.string() + " holds names of JPEG files but no such files; check what they are (`ls -l`)");
  return build_index(folder, listing, std::move(choice), sizes);
}

}  // namespace dsanalyze
