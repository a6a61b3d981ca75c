#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "dataset.hpp"
#include "index_dependencies.hpp"
#include "loaders/dataset/readers/dataset_reader.hpp"
#include "loaders/dataset/readers/dataset_source.hpp"
#include "loaders/dataset/readers/folder_listing.hpp"
#include "loaders/dataset/readers/member_keys.hpp"
#include "sample_choice.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

/// An index that depends on nothing could never be found out of date.
bool declares_dependencies(const DatasetIndex& index) { return !index.facts().folders.empty() || !index.facts().files.empty(); }

std::string identity_of(const DatasetIndex& index) { return index.facts().source.empty() ? index.facts().root : index.facts().source; }

bool belongs_to(const DatasetIndex& index, const DatasetSource& source) {
  return identity_of(index) == source.identity() && index.facts().root == source.root.string();
}

SampleKeys keys_of(const DatasetIndex& index) { return {index.facts().image_key, index.facts().label_key}; }

/// "--image-key jpg;png --label-key fine.cls"
std::string keys_text(const SampleKeys& keys) {
  std::string text;
  if (!keys.image.empty()) text += "--image-key \"" + keys.image + "\"";
  if (!keys.label.empty()) text += (text.empty() ? "--label-key \"" : " --label-key \"") + keys.label + "\"";
  return text.empty() ? "neither --image-key nor --label-key" : text;
}

std::shared_ptr<const DatasetIndex> use_given_index(const fs::path& file, const DatasetSource& source, const OpenOptions& options, EventSink& events,
                                                    const std::stop_token& stop) {
  auto index = read_index_file(file);
  if (!belongs_to(*index, source)) {
    throw Error(fmt::format("the index file {} belongs to the dataset {}, not to {}; make one for this dataset with `dsanalyze dataset index`",
                            file.string(), identity_of(*index), source.identity()));
  }
  if (keys_of(*index) != options.keys) {
    throw Error(
        fmt::format("the index file {} was made with {}, and now there is {}: it holds other samples or labels. Pass the same, or make the "
                    "index anew with `dsanalyze dataset index`",
                    file.string(), keys_text(keys_of(*index)), keys_text(options.keys)));
  }
  const IndexChanges changes = changes_since(*index, options.threads, stop);
  if (!changes.files.empty()) {
    NamedCount changed;
    for (const std::string& one : changes.files) changed.add(one);
    throw Error(
        fmt::format("the index file {} is out of date: of the files that it depends on, {} changed since it was made ({}); what it says of "
                    "the samples in them is not true any more. Make it anew with `dsanalyze dataset index`",
                    file.string(), changed.count, changed.text()));
  }
  if (!changes.folders.empty() || !declares_dependencies(*index)) {
    events.finding(
        {"index-outdated", Finding::Severity::warning,
         fmt::format("folders of {} changed after the index file {} was made: samples that are gone will fail, new ones are left out. Make "
                     "it anew with `dsanalyze dataset index`.",
                     source.identity(), file.string())});
  }
  return index;
}

std::shared_ptr<const DatasetIndex> index_from_cache(const fs::path& given, const DatasetSource& source, const OpenOptions& options,
                                                     EventSink& events, const std::stop_token& stop) {
  try {
    const fs::path file = default_index_file(given, options.keys);  // throws where the user has no folder for it: then there is no index either
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return nullptr;
    auto index = read_index_file(file);
    const bool is_its_index = belongs_to(*index, source) && keys_of(*index) == options.keys && declares_dependencies(*index);
    if (is_its_index && changes_since(*index, options.threads, stop).none()) return index;
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
  DatasetFiles files{source.root, source.name, list_source(source, options, events, stop), {}, options.keys};
  files.choice = source.is_folder() ? choose_samples(source.root, files.listing) : choose_files(source, files.listing);
  if (files.choice.samples.size() >= UINT32_MAX) throw Error("the dataset " + source.identity() + " has more than 4,294,967,294 files; split it");
  const SampleKeys members{options.keys.image, options.keys.wants_labels() ? options.keys.label : ""};
  if (members != SampleKeys{} && files.choice.reader->format != "tar") {
    throw UsageError(fmt::format("{}: members of tar shards have such extensions, and {} is a dataset of {}; leave the option out",
                                 keys_text(members), source.identity(), files.choice.reader->files));
  }
  return files.choice.reader->read(files, {options, events, stop});
}

}  // namespace

std::shared_ptr<const DatasetIndex> open_dataset(const fs::path& given, const OpenOptions& wanted, EventSink& events, const std::stop_token& stop) {
  OpenOptions options = wanted;
  options.keys = MemberKeys(wanted.keys).given();
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

namespace {

/// A log-normal distribution by its mean and deviation: sigma^2 = ln(1 + (deviation / mean)^2), mu = ln(mean) - sigma^2 / 2.
struct LogNormal {
  double mu = 0;
  double sigma = 0;

  LogNormal(double mean, double relative_deviation) {
    const double variance = std::log1p(relative_deviation * relative_deviation);
    sigma = std::sqrt(variance);
    mu = std::log(mean) - variance / 2;
  }
  [[nodiscard]] double at(std::uint64_t key) const { return std::exp(mu + sigma * RandomStream(key).normal()); }
};

void check(const DatasetSpec& spec, std::uint64_t samples, double scale) {
  if (!std::isfinite(scale) || scale <= 0) throw UsageError(fmt::format("the scale of an emulated dataset must be greater than 0, not {}", scale));
  if (spec.mean_sample_bytes == 0) throw UsageError("the dataset '" + spec.name + "' has no mean_sample_bytes: it cannot be emulated");
  if (!std::isfinite(spec.sample_bytes_deviation) || spec.sample_bytes_deviation < 0) {
    throw UsageError(fmt::format("the dataset '{}' has sample_bytes_deviation {}: it must be 0 or greater", spec.name, spec.sample_bytes_deviation));
  }
  if (samples == 0) throw UsageError("the dataset '" + spec.name + "' has no samples: say how many with samples=N");
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max() - 1;
  if (samples > most) throw UsageError(fmt::format("an emulated dataset has at most {} samples, not {}", most, samples));
}

}  // namespace

std::shared_ptr<const DatasetIndex> make_emulated_index(const DatasetSpec& spec, std::uint64_t samples, double scale, std::uint64_t seed) {
  const std::uint64_t count = samples > 0 ? samples : spec.samples;
  check(spec, count, scale);
  const std::uint64_t labels = std::max(spec.labels, 1U);
  const LogNormal sizes(static_cast<double>(spec.mean_sample_bytes), spec.sample_bytes_deviation);
  constexpr double most_bytes = 1e12;

  DatasetIndexBuilder builder;
  for (std::uint64_t label = 0; label < labels; ++label) builder.add_label(std::to_string(label));
  // One file holds all: an emulated device charges by request and length, and a name for each of 14 million samples would buy nothing.
  IndexRecord record;
  record.file = builder.add_file(spec.name);
  for (std::uint64_t sample = 0; sample < count; ++sample) {
    const double bytes = sizes.at(mix(seed, sample, 0x73697a65)) / scale;
    record.length = static_cast<std::uint64_t>(std::llround(std::clamp(bytes, 1.0, most_bytes)));
    record.label = static_cast<std::uint32_t>(sample * labels / count);
    builder.add_sample(record);
    record.offset += record.length;
  }
  DatasetIndex::Facts facts;
  facts.root = "emulated:" + spec.name;
  facts.format = "emulated";
  return std::move(builder).build(std::move(facts));
}

}  // namespace dsanalyze
