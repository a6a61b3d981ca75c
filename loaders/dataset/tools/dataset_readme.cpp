#include "dataset_readme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view marker_begin = "<!-- dsanalyze-dataset 1 ";

std::string_view licence_link(std::string_view licence) {
  if (licence == "CC-BY-4.0") return "https://creativecommons.org/licenses/by/4.0/";
  if (licence == "CC-BY-SA-4.0") return "https://creativecommons.org/licenses/by-sa/4.0/";
  if (licence == "CC0-1.0") return "https://creativecommons.org/publicdomain/zero/1.0/";
  return "";
}

std::string command_line(const MakeOptions& options) {
  std::string command = fmt::format("dsanalyze dataset make FOLDER --preset {} --seed {}", options.preset, options.seed);
  if (options.samples > 0) command += fmt::format(" --samples {}", options.samples);
  if (options.bytes > 0) command += fmt::format(" --bytes {}", options.bytes);
  return command;
}

std::string photograph_rows(const Photographs& photographs) {
  std::string rows = "| photograph | author | licence |\n| --- | --- | --- |\n";
  for (const PhotographFile& file : photographs.files) {
    rows += fmt::format("| {} | {} | [{}]({}) |\n", file.path.filename().string(), file.author, file.licence, licence_link(file.licence));
  }
  return rows;
}

std::string origin_of_package(const Photographs& photographs) {
  return fmt::format(
      "Every sample is a crop of one of these photographs, scaled and encoded anew; its JPEG comment names the photograph and its author.\n"
      "They come from the Debian package {}{}; authors and licences as its copyright file gives them.\n\n{}\n"
      "Samples from photographs under CC-BY-4.0 may be passed on with the author's name, the licence and the note that they were changed.\n"
      "Samples from photographs under CC-BY-SA-4.0 are adapted material: whoever passes them on does so under CC-BY-SA-4.0 too, and likewise for\n"
      "the dataset as a whole. CC0-1.0 asks for nothing.\n",
      photographs.package, photographs.package_version.empty() ? "" : " (version " + photographs.package_version + ")", photograph_rows(photographs));
}

std::string origin_of_user(const Photographs& photographs) {
  std::string text =
      "Every sample is a crop of one of these photographs, scaled and encoded anew. They were given by who made the dataset: their authors' terms "
      "hold\n"
      "for the samples too.\n\n";
  for (const PhotographFile& file : photographs.files) text += fmt::format("- {}\n", file.path.filename().string());
  return text;
}

}  // namespace

std::string readme_marker(const std::string& preset, std::uint64_t seed, const std::string& photographs_digest) {
  return fmt::format("{}preset={} seed={} photographs={} -->", marker_begin, preset, seed, photographs_digest);
}

std::string readme_text(const MakeOptions& options, const Photographs& photographs) {
  return fmt::format(
      "{}\n# JPEG samples like those of {}\n\n{}\nMade by:\n\n```\n{}\n```\n\nThe same command makes the same samples, and goes on where it was "
      "stopped.\n",
      readme_marker(options.preset, options.seed, photographs.digest), options.preset,
      photographs.package.empty() ? origin_of_user(photographs) : origin_of_package(photographs), command_line(options));
}

FolderState check_folder(const fs::path& folder, const std::string& marker) {
  std::error_code failure;
  const fs::file_status status = fs::status(folder, failure);
  if (!fs::exists(status)) return FolderState::fresh;
  if (!fs::is_directory(status)) throw Error(folder.string() + " is not a folder; choose another place for the dataset");
  const fs::path readme = folder / "README.md";
  if (fs::is_regular_file(readme, failure)) {
    const std::string text = read_file(readme);
    const std::string first_line = text.substr(0, text.find('\n'));
    if (first_line == marker) return FolderState::ours;
    if (first_line.starts_with(marker_begin)) {
      throw Error(fmt::format("{} holds a dataset made otherwise ({}), and this one would be ({}); choose another folder or remove that one",
                              folder.string(), first_line.substr(marker_begin.size()), marker.substr(marker_begin.size())));
    }
  }
  fs::directory_iterator entries(folder, failure);
  if (failure) throw_errno("cannot list the folder", folder.string(), failure.value());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == "lost+found") continue;  // what a new filesystem holds
    throw Error(fmt::format("{} holds other files already (for example {}); choose an empty or a new folder for the dataset", folder.string(), name));
  }
  return FolderState::fresh;
}

}  // namespace dsanalyze
