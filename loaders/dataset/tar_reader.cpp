#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset_reader.hpp"
#include "dsanalyze/base/error.hpp"
#include "file_window.hpp"
#include "label_table.hpp"
#include "parallel_ranges.hpp"
#include "tar_shard.hpp"

// Tar shards in WebDataset's layout: each key of a shard is a sample.

namespace dsanalyze {
namespace {

constexpr const char* names_file = "labels.txt";

std::vector<std::string> shard_names(const DatasetFiles& files) {
  std::vector<std::string> names;
  names.reserve(files.choice.samples.size());
  for (const auto& place : files.choice.samples) names.push_back(files.listing[place.folder].relative_path(place.name));
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<TarShard> scan_shards(const DatasetFiles& files, const std::vector<std::string>& names, const ReaderContext& context) {
  std::vector<TarShard> shards(names.size());
  std::atomic<std::size_t> done{0};
  parallel_ranges(names.size(), 1, context.options.threads, context.stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t shard = first; shard < last; ++shard) {
      shards[shard] = scan_tar_shard(files.root / names[shard], names[shard], context.stop);
      const std::size_t now = ++done;
      context.events.progress(
          {fmt::format("reading the headers of {} shards", names.size()), static_cast<double>(now) / static_cast<double>(names.size()), -1});
    }
  });
  return shards;
}

/// The array that all samples are; nothing when they are images, as most are. Throws Error when two shards differ.
std::optional<ArrayDescription> common_array(const std::vector<TarShard>& shards, const std::vector<std::string>& names) {
  std::uint64_t images = 0;
  std::uint64_t arrays = 0;
  std::optional<std::size_t> first;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    for (const TarSample& sample : shards[shard].samples) ++(sample.kind == TarSampleKind::image ? images : arrays);
    if (shards[shard].array && !first) first = shard;
  }
  if (arrays <= images || !first) return std::nullopt;
  for (std::size_t shard = *first; shard < shards.size(); ++shard) {
    if (!shards[shard].array || shards[shard].array == shards[*first].array) continue;
    throw Error(fmt::format("the arrays of the shard {} have another shape or type than those of {}; all samples of a dataset must have the same",
                            names[shard], names[*first]));
  }
  return shards[*first].array;
}

/// Findings about all shards together; a code with a count and a few names each.
void add_findings(std::vector<Finding>& findings, const std::vector<TarShard>& shards, const std::vector<std::string>& names,
                  const NamedCount& other_kind) {
  NamedCount without_data;
  NamedCount several;
  NamedCount unreadable_labels;
  NamedCount links;
  for (const TarShard& shard : shards) {
    without_data.add(shard.keys_without_data);
    several.add(shard.keys_with_several_data);
    unreadable_labels.add(shard.labels_unreadable);
    links.add(shard.links);
  }
  const auto add = [&](const char* code, Finding::Severity severity, const NamedCount& count, std::string_view what) {
    if (count.count > 0) findings.push_back({code, severity, fmt::format("{} {}: {}", count.count, what, count.text())});
  };
  using enum Finding::Severity;
  add("tar-keys-without-data", warning, without_data, "keys have neither an image nor an array and are left out");
  add("tar-keys-with-several-data", warning, several, "keys have several images or arrays, of which the first is used");
  add("tar-labels-unreadable", warning, unreadable_labels, ".cls members hold no whole number");
  add("tar-links", warning, links, "members are links, which hold no data, and are left out");
  add("tar-other-kind", warning, other_kind, "samples are of another kind (image, array) than most and are left out");

  std::map<std::string, NamedCount> damaged;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (shards[number].damage) damaged[shards[number].damage->code].add(fmt::format("{} {}", names[number], shards[number].damage->text));
  }
  for (const auto& [code, count] : damaged) {
    findings.push_back(
        {code, warning,
         fmt::format("{} shard{} not whole: {}; whole samples before that are used", count.count, count.count == 1 ? " is" : "s are", count.text())});
  }
}

}  // namespace

std::shared_ptr<const DatasetIndex> read_tar_shards(const DatasetFiles& files, const ReaderContext& context) {
  const std::vector<std::string> names = shard_names(files);
  const std::vector<TarShard> shards = scan_shards(files, names, context);
  DatasetIndex::Facts facts = start_facts(files);
  facts.array = common_array(shards, names);
  const TarSampleKind kind = facts.array ? TarSampleKind::array : TarSampleKind::image;

  DatasetIndexBuilder builder;
  std::vector<IndexRecord> records;
  std::vector<std::optional<std::int64_t>> numbers;
  NamedCount other_kind;
  NamedCount skipped{facts.skipped_count, facts.skipped};
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::uint32_t file = builder.add_file(names[shard]);
    facts.files.push_back({names[shard], shards[shard].bytes, shards[shard].modified_nanoseconds});
    for (const NamedCount* left_out : {&shards[shard].keys_without_data, &shards[shard].links, &shards[shard].other_members}) skipped.add(*left_out);
    for (const TarSample& sample : shards[shard].samples) {
      if (sample.kind != kind) {
        other_kind.add(fmt::format("{} (offset {})", names[shard], sample.offset));
        continue;
      }
      records.push_back({sample.offset, facts.array ? facts.array->sample_bytes : sample.length, file, 0});
      numbers.push_back(sample.label);
    }
  }
  if (records.empty()) {
    throw Error(fmt::format("the {} shard{} of {} hold{} no image or array: WebDataset names members KEY.jpg, KEY.png, KEY.webp or KEY.npy",
                            names.size(), names.size() == 1 ? "" : "s", facts.source.empty() ? facts.root : facts.source,
                            names.size() == 1 ? "s" : ""));
  }
  facts.skipped_count = skipped.count;
  facts.skipped = skipped.names;
  const std::filesystem::path names_path = files.root / names_file;
  LabelTable labels = make_label_table(numbers, names_path);
  for (std::size_t sample = 0; sample < records.size(); ++sample) {
    records[sample].label = labels.labels[sample];
    builder.add_sample(records[sample]);
  }
  for (const std::string& name : labels.names) builder.add_label(name);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(names_path, ignored)) {
    const FileWindow window(names_path);
    facts.files.push_back({names_file, window.size(), window.modified_nanoseconds()});
  }
  add_findings(facts.findings, shards, names, other_kind);
  facts.findings.insert(facts.findings.end(), labels.findings.begin(), labels.findings.end());
  return std::move(builder).build(std::move(facts));
}

}  // namespace dsanalyze
