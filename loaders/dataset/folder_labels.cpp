#include "folder_labels.hpp"

#include <algorithm>

#include "label_table.hpp"

namespace dsanalyze {

std::vector<std::uint32_t> number_labels(const std::vector<ListedFolder>& listing, const SampleChoice& choice, std::vector<std::string>& names) {
  constexpr std::uint32_t none = UINT32_MAX;
  std::vector<char> holds_samples(listing.size(), 0);
  for (const auto& place : choice.samples) holds_samples[place.folder] = 1;
  for (std::size_t folder = 0; folder < listing.size(); ++folder) {
    if (holds_samples[folder] != 0)
      names.push_back(listing[folder].path.empty() ? std::string(no_class_name) : std::string(listing[folder].first_level()));
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

}  // namespace dsanalyze
