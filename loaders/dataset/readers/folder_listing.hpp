#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// One folder's own files, by name in byte order. The names share one piece of memory: a million files cost two allocations.
class ListedFolder {
 public:
  struct Name {
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };

  std::string path;                      ///< relative to the listed root; "" is the root
  std::int64_t changed_nanoseconds = 0;  ///< before its listing began
  std::vector<Name> names;               ///< files, links to files included
  std::vector<std::string> not_files;    ///< sockets, pipes, devices, links that lead nowhere

  void add(std::string_view name);
  void sort();
  [[nodiscard]] std::string_view name(std::size_t number) const {
    return std::string_view(m_text).substr(names[number].offset, names[number].length);
  }
  /// "n01440764/red.jpg"
  [[nodiscard]] std::string relative_path(std::size_t number) const;
  /// The first folder of the path: the label. "" for the root.
  [[nodiscard]] std::string_view first_level() const { return std::string_view(path).substr(0, path.find('/')); }

 private:
  std::string m_text;
};

/// How many folders and files were seen up to now; called between levels of the tree.
using ListingProgress = std::function<void(std::size_t folders, std::size_t files)>;

/// Every folder below `root` that is not hidden, to any depth: those of one first-level folder side by side, in byte order of these and then of their
/// paths, the same whatever the threads did ("a", "a/x", "a-b": as torchvision's ImageFolder walks them). Files are told from
/// folders by what the directory entry says; only entries that do not say (links, some filesystems) are asked for. A link back to a folder on its own
/// path is not followed. Throws Error naming the folder that cannot be read, Interrupted on a stop.
std::vector<ListedFolder> list_folder(const std::filesystem::path& root, int threads, const std::stop_token& stop, const ListingProgress& progress);

/// When the folder was last changed; nothing when it cannot be asked.
std::optional<std::int64_t> folder_changed_nanoseconds(const std::filesystem::path& folder);

}  // namespace dsanalyze
