#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/events.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

/// What `dataset make` produces: JPEG files cut from real photographs, in class folders.
struct MakeOptions {
  std::string preset = "imagenet-1k";  ///< imagenet-1k: mean 110-150 KB, mostly 500x375; openimages: mean 300 KB, mostly 1024x768
  std::uint64_t samples = 0;           ///< 0: by `bytes`; both 0: 2,000
  Bytes bytes = 0;                     ///< stop when about so many bytes exist
  std::uint64_t seed = 1;
  int threads = 2;
  std::vector<std::filesystem::path> photographs;  ///< source JPEGs; empty: those of the Debian package below
};

struct MakeReport {
  std::uint64_t samples = 0;
  std::uint64_t already_there = 0;
  Bytes bytes = 0;
  double mean_bytes = 0;
  double seconds = 0;
};

/// Cuts, scales and encodes samples from photographs, each a pure function of (seed, number), so that no two files are alike and an interrupted make
/// can go on where it stopped. Each file appears whole or not at all. Writes README.md with package, authors and licences of the photographs into the
/// dataset. Throws UsageError for an unknown preset, Error when photographs are missing (says which package to install), when the folder holds
/// something else, or on a full disk.
MakeReport make_dataset(const std::filesystem::path& folder, const MakeOptions& options, EventSink& events, const std::stop_token& stop);
std::vector<std::string> make_presets();

/// A photograph source: where the files are and who made them.
struct PhotographSource {
  std::string package;  ///< Debian package
  std::filesystem::path folder;
  struct Photograph {
    std::string file, author, licence;
  };
  std::vector<Photograph> photographs;
};
const PhotographSource& photograph_source();

}  // namespace dsanalyze
