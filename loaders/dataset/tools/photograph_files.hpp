#pragma once

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset_make.hpp"
#include "jpeg_file.hpp"

namespace dsanalyze {

/// A photograph to cut samples from; author and licence are empty for files that the user gave.
struct PhotographFile {
  std::filesystem::path path;
  std::string author;
  std::string licence;
};

struct Photographs {
  std::vector<PhotographFile> files;
  std::vector<RgbImage> images;  ///< one for each file
  std::string digest;            ///< over all files' bytes in order: what a sample depends on besides seed and number
  std::string package;           ///< the Debian package they are from; empty for the user's own
  std::string package_version;   ///< empty when the package manager does not know it
};

/// Reads and decodes the photographs of the package, or those that the user named (folders stand for their JPEG files). Large ones are halved while
/// their shorter side keeps `least_short_side` pixels. Throws Error naming the file that is missing (and the package to install) or cannot be
/// decoded.
Photographs load_photographs(const MakeOptions& options, int least_short_side, const std::stop_token& stop);

/// The version of an installed Debian package, from dpkg's own list; "" when it is not there.
std::string installed_package_version(const std::string& package, const std::filesystem::path& status_file = "/var/lib/dpkg/status");

}  // namespace dsanalyze
