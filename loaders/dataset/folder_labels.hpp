#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "folder_listing.hpp"
#include "sample_choice.hpp"

namespace dsanalyze {

/// A number for each listed folder: that of its first-level folder among those that hold samples, in byte order. The root's own files have label 0.
/// `names` receives the names by number.
std::vector<std::uint32_t> number_labels(const std::vector<ListedFolder>& listing, const SampleChoice& choice, std::vector<std::string>& names);

}  // namespace dsanalyze
