#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "folder_listing.hpp"

namespace dsanalyze {

/// Which of the listed files are samples. Points into the listing.
struct SampleChoice {
  struct Place {
    std::uint32_t folder = 0;
    std::uint32_t name = 0;
  };
  std::vector<Place> samples;        ///< in listing order
  std::vector<std::string> skipped;  ///< relative paths of a few files that are no samples
  std::uint64_t skipped_count = 0;
};

/// The files with a JPEG extension; where there are none, those without a telling extension whose first bytes are a JPEG's (a few of each extension
/// are read). Throws Error that says what is there instead, by its format's name and with the way to convert it.
SampleChoice choose_samples(const std::filesystem::path& root, const std::vector<ListedFolder>& listing);

/// The first bytes of a file, at most `most`; empty when it cannot be read.
std::string first_bytes(const std::filesystem::path& file, std::size_t most);

}  // namespace dsanalyze
