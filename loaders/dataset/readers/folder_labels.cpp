#include "folder_labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "dataset_source.hpp"
#include "label_table.hpp"

namespace dsanalyze {

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
