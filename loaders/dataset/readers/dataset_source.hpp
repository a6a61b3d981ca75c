#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// What a dataset's path stands for: a folder, one file, or the files of a brace range.
struct DatasetSource {
  std::filesystem::path root;      ///< canonical; paths of files are relative to it
  std::string name;                ///< absolute path of the file or range; empty for a folder
  std::vector<std::string> files;  ///< empty for a folder

  [[nodiscard]] bool is_folder() const { return name.empty(); }
  /// What tells this dataset from others: an index belongs to it.
  [[nodiscard]] std::string identity() const { return is_folder() ? root.string() : name; }
};

/// Throws Error that says what is missing: the path, files of the range (how many, which first); or what it is if neither folder nor file.
DatasetSource find_source(const std::filesystem::path& given);

/// Absolute and without links, as far as it exists: the same however the path is written.
std::string absolute_name(const std::filesystem::path& given);

/// Whether the text holds a brace range as the shell, and users of WebDataset, write it: "train-{000000..000146}.tar", "{train,val}-{0..9}.tar".
bool has_brace_range(std::string_view text);
/// What it stands for, in the order that the shell gives; a text without a range stands for itself. Numbers keep their leading zeros. Throws Error
/// when a range is not closed or stands for more than `most` texts.
std::vector<std::string> expand_braces(std::string_view text, std::size_t most = 10'000'000);

/// How many there are of something, and what the first few are called: enough for a message about a million of them.
struct NamedCount {
  static constexpr std::size_t most_names = 5;
  std::uint64_t count = 0;
  std::vector<std::string> names;

  void add(std::string name) {
    ++count;
    if (names.size() < most_names) names.push_back(std::move(name));
  }
  /// Adds what another thread counted; call it in the order in which names are to be chosen.
  void add(const NamedCount& other) {
    count += other.count;
    for (std::size_t place = 0; place < other.names.size() && names.size() < most_names; ++place) names.push_back(other.names[place]);
  }
  /// "a, b, c" and, where there are more, ", ...".
  [[nodiscard]] std::string text() const {
    std::string result;
    for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
    return count > names.size() ? result + ", ..." : result;
  }
};

}  // namespace dsanalyze
