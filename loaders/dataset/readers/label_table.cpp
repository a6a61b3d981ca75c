#include "label_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/system/files.hpp"
#include "core/index.hpp"
#include "dataset_source.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t most_labels = 1 << 20;
constexpr Bytes most_names_bytes = Bytes{64} << 20;

/// Nothing without such a file.
std::optional<std::vector<std::string>> lines_of(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  std::string text = read_file(file, most_names_bytes);
  if (constexpr std::string_view byte_order_mark = "\xef\xbb\xbf"; text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t length = end > begin && text[end - 1] == '\r' ? end - begin - 1 : end - begin;
    lines.push_back(text.substr(begin, length));
    begin = end + 1;
  }
  return lines;
}

void count_through(std::span<const SampleLabel> carried, LabelTable& table) {
  std::vector<std::uint32_t> values;
  for (const SampleLabel& label : carried) {
    if (label.kind == SampleLabel::Kind::number) values.push_back(label.number);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  for (const std::uint32_t value : values) table.names.push_back(std::to_string(value));
  for (const SampleLabel& label : carried) {
    const auto place = std::lower_bound(values.begin(), values.end(), label.number);
    table.labels.push_back(label.kind == SampleLabel::Kind::number ? static_cast<std::uint32_t>(place - values.begin()) : IndexRecord::no_label);
  }
  table.findings.push_back({"labels-renumbered", Finding::Severity::warning,
                            fmt::format("labels lie between {} and {}: they are counted through from 0 to {} instead, in ascending order, and called "
                                        "by their numbers",
                                        values.front(), values.back(), values.size() - 1)});
}

void name_labels(std::size_t needed, const std::filesystem::path& names_file, LabelTable& table) {
  auto names = lines_of(names_file);
  while (names && names->size() > needed && names->back().empty()) names->pop_back();  // blank lines at the end
  if (names && names->size() >= needed) {
    table.names = *names;
    return;
  }
  for (std::size_t label = 0; label < needed; ++label) table.names.push_back(std::to_string(label));
  if (!names) return;
  table.findings.push_back({"label-names-too-few", Finding::Severity::warning,
                            fmt::format("{} names {} labels, and the samples' labels go up to {}, which needs {} names: the file is not used, and "
                                        "labels are called by their numbers",
                                        names_file.filename().string(), names->size(), needed - 1, needed)});
}

}  // namespace

SampleLabel SampleLabel::of(std::optional<std::int64_t> value) {
  constexpr std::int64_t max_label = std::numeric_limits<std::int32_t>::max();
  if (!value || *value < 0 || *value > max_label) return {Kind::invalid, 0};
  return {Kind::number, static_cast<std::uint32_t>(*value)};
}

LabelTable no_labels(std::size_t samples) { return {std::vector<std::uint32_t>(samples, 0), {no_class_name}, {}}; }

LabelTable make_label_table(std::span<const SampleLabel> carried, const std::filesystem::path& names_file) {
  using Kind = SampleLabel::Kind;
  LabelTable table;
  table.labels.reserve(carried.size());
  const auto count = [&](Kind kind) { return std::count_if(carried.begin(), carried.end(), [&](const auto& label) { return label.kind == kind; }); };
  if (count(Kind::number) + count(Kind::invalid) == 0) return no_labels(carried.size());
  if (const auto absent = count(Kind::absent); absent > 0) {
    table.findings.push_back({"labels-missing", Finding::Severity::warning,
                              fmt::format("{} of {} samples have no label, and others have: they fail, as samples that cannot be read do; {}", absent,
                                          carried.size(), way_without_labels)});
  }
  if (count(Kind::number) == 0) {
    table.labels.assign(carried.size(), IndexRecord::no_label);
    return table;
  }
  std::uint32_t most = 0;
  for (const SampleLabel& label : carried) most = std::max(most, label.number);
  if (most >= most_labels) {
    count_through(carried, table);
    return table;
  }
  for (const SampleLabel& label : carried) table.labels.push_back(label.kind == Kind::number ? label.number : IndexRecord::no_label);
  name_labels(std::size_t{most} + 1, names_file, table);
  return table;
}

FolderLabels number_labels(const std::vector<ListedFolder>& listing, const SampleChoice& choice) {
  std::vector<std::uint64_t> samples(listing.size(), 0);
  for (const auto& place : choice.samples) ++samples[place.folder];

  FolderLabels labels;
  std::vector<std::uint64_t> samples_of_class;
  std::uint64_t in_root = 0;
  // The listing has a class's folders side by side, in the order of the classes.
  for (std::size_t folder = 0; folder < listing.size(); ++folder) {
    if (listing[folder].path.empty()) {
      in_root += samples[folder];
      labels.of_folder.push_back(0);
      continue;
    }
    if (labels.names.empty() || labels.names.back() != listing[folder].first_level()) {
      labels.names.emplace_back(listing[folder].first_level());
      samples_of_class.push_back(0);
    }
    samples_of_class.back() += samples[folder];
    labels.of_folder.push_back(static_cast<std::uint32_t>(labels.names.size() - 1));
  }
  NamedCount without_samples;
  for (std::size_t label = 0; label < labels.names.size(); ++label) {
    if (samples_of_class[label] == 0) without_samples.add(labels.names[label]);
  }
  const bool has_classes = without_samples.count < labels.names.size();
  if (!has_classes) {
    labels.names.assign(1, std::string(no_class_name));
    labels.of_folder.assign(listing.size(), 0);
    return labels;
  }
  if (without_samples.count > 0) {
    labels.findings.push_back(
        {"classes-without-samples", Finding::Severity::info,
         fmt::format("{} class folders hold no samples, and keep their numbers: {}", without_samples.count, without_samples.text())});
  }
  if (in_root > 0) {
    labels.findings.push_back(
        {"files-beside-classes", Finding::Severity::warning,
         fmt::format(
             "{} samples lie beside the class folders: they have the label {}, behind the classes (torchvision's ImageFolder leaves them out)",
             in_root, labels.names.size())});
    for (std::size_t folder = 0; folder < listing.size(); ++folder) {
      if (listing[folder].path.empty()) labels.of_folder[folder] = static_cast<std::uint32_t>(labels.names.size());
    }
    labels.names.emplace_back(no_class_name);
  }
  return labels;
}

}  // namespace dsanalyze
