#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "dataset_reader.hpp"
#include "label_table.hpp"
#include "loaders/dataset/index_dependencies.hpp"
#include "member_keys.hpp"
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

std::vector<TarShard> scan_shards(const DatasetFiles& files, const std::vector<std::string>& names, const MemberKeys& keys,
                                  const ReaderContext& context) {
  std::vector<TarShard> shards(names.size());
  std::atomic<std::size_t> done{0};
  parallel_ranges(names.size(), 1, context.options.threads, context.stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t shard = first; shard < last; ++shard) {
      shards[shard] = scan_tar_shard(files.root / names[shard], names[shard], keys, BehindEnd::probed, context.stop);
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

/// "cls (12), coarse.cls (12)": what the members of all shards are, the most frequent first.
std::string extensions_text(const ExtensionCount& count) {
  std::vector<std::pair<std::uint64_t, std::string>> sorted;
  for (const auto& [extension, members] : count.members) sorted.emplace_back(members, extension);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [members, extension] : sorted) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", extension, members);
  return text.empty() ? "none" : text;
}

ExtensionCount all_extensions(const std::vector<TarShard>& shards) {
  ExtensionCount all;
  for (const TarShard& shard : shards) {
    for (const auto& [extension, members] : shard.extensions.members) all.add(extension, members);
  }
  return all;
}

std::string name_of(const DatasetFiles& files) { return files.source.empty() ? files.root.string() : files.source; }

/// Each of the first few, "x.tar ends within ...".
NamedCount damaged_shards(const std::vector<TarShard>& shards, const std::vector<std::string>& names) {
  NamedCount damaged;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (shards[number].damage) damaged.add(fmt::format("{} {}", names[number], shards[number].damage->text));
  }
  return damaged;
}

[[noreturn]] void throw_no_samples(const DatasetFiles& files, const std::vector<TarShard>& shards, const std::vector<std::string>& names,
                                   const MemberKeys& keys) {
  if (const NamedCount damaged = damaged_shards(shards, names); damaged.count > 0)
    throw Error(fmt::format("{} holds no whole sample, and shards of it are damaged: {}", name_of(files), damaged.text()));
  throw Error(
      fmt::format("the {} shard{} of {} hold{} no image or array with the extension {}: a name's extension begins at the first dot of its last part. "
                  "Extensions that are there: {}; say which is the sample with --image-key",
                  shards.size(), shards.size() == 1 ? "" : "s", name_of(files), shards.size() == 1 ? "s" : "", keys.data_text(),
                  extensions_text(all_extensions(shards))));
}

/// Throws Error when no sample has the label that was asked for, or when what could be one has another extension: a label that is not found would
/// silently be 0.
void require_labels(const DatasetFiles& files, const std::vector<TarShard>& shards, const MemberKeys& keys) {
  if (std::any_of(shards.begin(), shards.end(), [](const TarShard& shard) { return shard.labelled > 0; })) return;
  if (!keys.given().wants_labels()) return;
  const ExtensionCount all = all_extensions(shards);
  const bool could_be_one = std::any_of(all.members.begin(), all.members.end(), [](const auto& one) { return one.first.ends_with(".cls"); });
  if (!could_be_one && !keys.label_is_chosen()) return;
  throw Error(fmt::format("no member of {} has the label's extension, {}; extensions that are there: {}. Say which is the label with --label-key; {}",
                          name_of(files), keys.label_text(), extensions_text(all), way_without_labels));
}

/// Findings about all shards together; a code with a count and a few names each.
void add_findings(std::vector<Finding>& findings, const std::vector<TarShard>& shards, const std::vector<std::string>& names, const MemberKeys& keys,
                  const NamedCount& other_kind) {
  NamedCount without_data;
  NamedCount repeated;
  NamedCount unreadable_labels;
  NamedCount links;
  for (const TarShard& shard : shards) {
    without_data.add(shard.keys_without_data);
    repeated.add(shard.keys_repeated);
    unreadable_labels.add(shard.labels_unreadable);
    links.add(shard.links);
  }
  const auto add = [&](const char* code, Finding::Severity severity, const NamedCount& count, const std::string& what,
                       const std::string& advice = {}) {
    if (count.count > 0)
      findings.push_back({code, severity, fmt::format("{} {}: {}{}{}", count.count, what, count.text(), advice.empty() ? "" : "; ", advice)});
  };
  using enum Finding::Severity;
  add("tar-keys-without-data", warning, without_data, fmt::format("keys have no {} member and are left out", keys.data_text()));
  add("tar-keys-repeated", warning, repeated, "keys come again within their shard: each time is a sample of its own");
  add("tar-labels-unreadable", warning, unreadable_labels, "label members hold no whole number from 0 to 2147483647: their samples fail",
      way_without_labels);
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
  const MemberKeys keys(context.options.keys);
  const std::vector<TarShard> shards = scan_shards(files, names, keys, context);
  require_labels(files, shards, keys);
  DatasetIndex::Facts facts = start_facts(files);
  facts.array = common_array(shards, names);
  const TarSampleKind kind = facts.array ? TarSampleKind::array : TarSampleKind::image;

  DatasetIndexBuilder builder;
  std::vector<IndexRecord> records;
  std::vector<SampleLabel> carried;
  NamedCount other_kind;
  NamedCount skipped{facts.skipped_count, facts.skipped};
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::uint32_t file = builder.add_file(names[shard]);
    facts.files.push_back({names[shard], shards[shard].bytes, shards[shard].changed_nanoseconds, shards[shard].inode});
    for (const NamedCount* left_out : {&shards[shard].keys_without_data, &shards[shard].links, &shards[shard].other_members}) skipped.add(*left_out);
    for (const TarSample& sample : shards[shard].samples) {
      if (sample.kind != kind) {
        other_kind.add(fmt::format("{} (offset {})", names[shard], sample.offset));
        continue;
      }
      records.push_back({sample.offset, facts.array ? facts.array->sample_bytes : sample.length, file, 0});
      carried.push_back(sample.label);
    }
  }
  if (records.empty()) throw_no_samples(files, shards, names, keys);
  facts.skipped_count = skipped.count;
  facts.skipped = skipped.names;
  depend_on(facts, names_file);
  const LabelTable labels = keys.given().wants_labels() ? make_label_table(carried, files.root / names_file) : no_labels(carried.size());
  for (std::size_t sample = 0; sample < records.size(); ++sample) {
    records[sample].label = labels.labels[sample];
    builder.add_sample(records[sample]);
  }
  for (const std::string& name : labels.names) builder.add_label(name);
  add_findings(facts.findings, shards, names, keys, other_kind);
  facts.findings.insert(facts.findings.end(), labels.findings.begin(), labels.findings.end());
  return std::move(builder).build(std::move(facts));
}

}  // namespace dsanalyze
