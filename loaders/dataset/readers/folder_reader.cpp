#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "dataset_reader.hpp"
#include "label_table.hpp"
#include "loaders/dataset/index_dependencies.hpp"
#include "loaders/dataset/sample_choice.hpp"

// A folder of images: each file is a sample, class folders give labels.

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

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

std::shared_ptr<const DatasetIndex> build_index(const DatasetFiles& files, const SampleSizes& sizes) {
  const std::vector<ListedFolder>& listing = files.listing;
  const SampleChoice& choice = files.choice;
  DatasetIndexBuilder builder;
  const FolderLabels classes = labels_of_folders(files);
  const std::vector<std::uint32_t>& labels = classes.of_folder;
  for (const std::string& name : classes.names) builder.add_label(name);
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

  DatasetIndex::Facts facts = start_facts(files);
  facts.findings.insert(facts.findings.end(), classes.findings.begin(), classes.findings.end());
  if (!files.source.empty()) {
    for (const std::uint32_t file : sizes.files) depend_on(facts, path_of(listing, choice.samples[file]));
  }
  facts.sizes_sampled = sizes.sampled;
  if (sizes.sampled) {
    facts.total_samples = choice.samples.size();
    const double mean_bytes = static_cast<double>(bytes) / static_cast<double>(sizes.files.size());
    facts.total_bytes = static_cast<Bytes>(std::llround(mean_bytes * static_cast<double>(choice.samples.size())));
    facts.digest = digest_of_listing(listing, choice, labels);
  } else {
    facts.skipped_count += choice.samples.size() - sizes.files.size();
  }
  return std::move(builder).build(std::move(facts));
}

}  // namespace

std::shared_ptr<const DatasetIndex> read_image_folder(const DatasetFiles& files, const ReaderContext& context) {
  const std::vector<SampleChoice::Place>& samples = files.choice.samples;
  const auto count = static_cast<std::uint32_t>(samples.size());
  context.events.progress({fmt::format("asking for the sizes of {} files", count), -1, -1});
  const SizeLimits limits{context.options.stat_budget_seconds, context.options.sampled_samples, context.options.seed, context.options.threads};
  const SampleSizes sizes = ask_sizes(
      count, [&](std::uint32_t file) { return size_of_file(files.root / path_of(files.listing, samples[file])); }, limits, *system_timing().clock,
      context.stop);
  if (sizes.files.empty())
    throw Error("the dataset " + files.root.string() + " holds names of image files but no such files; check what they are (`ls -l`)");
  return build_index(files, sizes);
}

}  // namespace dsanalyze
