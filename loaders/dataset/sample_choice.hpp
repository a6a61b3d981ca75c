#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/text/units.hpp"
#include "loaders/dataset/readers/dataset_source.hpp"
#include "loaders/dataset/readers/folder_listing.hpp"

namespace dsanalyze {

struct DatasetReader;

/// Which of the listed files are samples (or hold them), and who reads them. Points into the listing.
struct SampleChoice {
  struct Place {
    std::uint32_t folder = 0;
    std::uint32_t name = 0;
  };
  const DatasetReader* reader = nullptr;
  std::vector<Place> samples;     ///< in listing order
  NamedCount skipped;             ///< files of other kinds
  std::vector<Finding> findings;  ///< what was left out although another reader knows it
};

/// The files of the kind that nearly all (nine in ten) of those known by their names have; where no name is known, by the first bytes of a few files
/// of each extension. Throws Error that says what is there instead: kinds in a mixture without a majority, formats that are not read yet with the way
/// to convert them.
SampleChoice choose_samples(const std::filesystem::path& root, const std::vector<ListedFolder>& listing);
/// The same for files that the user named (listing holds them alone).
SampleChoice choose_files(const DatasetSource& source, const std::vector<ListedFolder>& listing);

/// Label files beside samples ("labels.txt", "x.labels.npy", "x.labels.txt"): neither samples nor left out.
bool is_labels_name(std::string_view file_name);

/// The first bytes of a file, at most `most`, or those at `offset`; empty when it cannot be read.
std::string first_bytes(const std::filesystem::path& file, std::size_t most, std::uint64_t offset = 0);

/// The size of the file with this number; nothing when it turns out to be no file at all. Called from several threads.
using AskSize = std::function<std::optional<Bytes>(std::uint32_t file)>;

struct SizeLimits {
  double budget_seconds = 10;
  std::uint32_t sampled_samples = 50'000;
  std::uint64_t seed = 1;
  int threads = 4;
};

struct SampleSizes {
  std::vector<std::uint32_t> files;  ///< in ascending order
  std::vector<Bytes> bytes;          ///< of each of `files`
  bool sampled = false;              ///< a random subset was asked for
};

/// Asks for sizes in random order, so that whatever was asked when the budget ends is a random subset. Goes on to the last file as long as the pace
/// (measured on the first thousand, then on all) promises to end within the budget; otherwise stops at `sampled_samples` files or at the budget.
/// Throws what `ask` throws; Interrupted on a stop.
SampleSizes ask_sizes(std::uint32_t count, const AskSize& ask, const SizeLimits& limits, const Clock& clock, const std::stop_token& stop);

}  // namespace dsanalyze
