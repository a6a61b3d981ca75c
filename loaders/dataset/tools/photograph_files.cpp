#include "photograph_files.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "dataset_make.hpp"
#include "loaders/dataset/readers/format_names.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

std::vector<PhotographFile> files_of_package(const PhotographSource& source) {
  std::vector<PhotographFile> files;
  for (const auto& photograph : source.photographs) {
    const fs::path file = source.folder / photograph.file;
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
      throw Error(fmt::format("the photograph {} is missing; install its package (`apt-get install {}`) or name JPEG photographs of your own",
                              file.string(), source.package));
    }
    files.push_back({file, photograph.author, photograph.licence});
  }
  return files;
}

std::vector<PhotographFile> files_of_user(const std::vector<fs::path>& given) {
  std::vector<PhotographFile> files;
  for (const fs::path& path : given) {
    std::error_code failure;
    if (!fs::is_directory(path, failure)) {
      files.push_back({path, "", ""});
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path, failure)) {
      const std::string name = entry.path().filename().string();
      if (is_jpeg_name(name) && !name.starts_with('.')) found.push_back(entry.path());
    }
    if (failure) throw_errno("cannot list the folder of photographs", path.string(), failure.value());
    if (found.empty()) throw Error("the folder of photographs " + path.string() + " holds no JPEG files");
    std::sort(found.begin(), found.end());
    for (const fs::path& file : found) files.push_back({file, "", ""});
  }
  return files;
}

}  // namespace

Photographs load_photographs(const MakeOptions& options, int least_short_side, const std::stop_token& stop) {
  Photographs result;
  if (options.photographs.empty()) {
    const PhotographSource& source = photograph_source();
    result.files = files_of_package(source);
    result.package = source.package;
    result.package_version = installed_package_version(source.package);
  } else {
    result.files = files_of_user(options.photographs);
  }

  result.images.resize(result.files.size());
  std::vector<std::uint64_t> digests(result.files.size());
  parallel_ranges(result.files.size(), 1, options.threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) {
      const std::string bytes = read_file(result.files[place].path);
      digests[place] = XXH3_64bits(bytes.data(), bytes.size());
      try {
        result.images[place] = decode_photograph(bytes, least_short_side);
      } catch (const Error& error) {
        throw Error(fmt::format("cannot decode the photograph {}: {}", result.files[place].path.string(), error.what()));
      }
    }
  });
  result.digest = fmt::format("{:016x}", XXH3_64bits(digests.data(), digests.size() * sizeof digests.front()));
  return result;
}

std::string installed_package_version(const std::string& package, const fs::path& status_file) {
  std::ifstream status(status_file);
  bool is_wanted = false;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Package: ")) is_wanted = line.substr(9) == package;
    if (is_wanted && line.starts_with("Version: ")) return line.substr(9);
  }
  return {};
}

// As /usr/share/doc/lomiri-wallpapers-16.04/copyright (20.04.0-2) says, file by file.
const PhotographSource& photograph_source() {
  static const PhotographSource source{"lomiri-wallpapers-16.04",
                                       "/usr/share/backgrounds",
                                       {
                                           {"Bridge_by_Sander_Klootwijk.jpg", "Sander Klootwijk", "CC-BY-SA-4.0"},
                                           {"Dragonfly_by_Bolly.jpg", "\"Bolly\"", "CC-BY-SA-4.0"},
                                           {"Picture_0B_by_freespace.jpg", "Trevor \"Freespace\"", "CC-BY-4.0"},
                                           {"Picture_1A_by_freespace.jpg", "Trevor \"Freespace\"", "CC-BY-4.0"},
                                           {"Wine_by_Jakkub_Mede.jpg", "Jakub Mede", "CC-BY-4.0"},
                                           {"aitzgorri_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"analogpattern_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"free_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"friends_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"greentock_by_Peter_Nerlich.jpg", "Peter Nerlich", "CC-BY-SA-4.0"},
                                           {"life_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"picosdeeuropa_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"seeding_by_Clements_Engelhardt.jpg", "Clemens Engelhardt", "CC0-1.0"},
                                           {"sunset_by_Aitzol_Berasategi.jpg", "Aitzol Berasategi", "CC-BY-4.0"},
                                           {"umang_by_Abhishek_Mudgal.jpg", "Abhishek Mudgal", "CC-BY-4.0"},
                                       }};
  return source;
}

}  // namespace dsanalyze
