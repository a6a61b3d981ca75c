#include "folder_listing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"
#include "format_names.hpp"
#include "parallel_ranges.hpp"

namespace dsanalyze {
namespace {

/// A folder and those above it, as the filesystem knows them: what a link must not lead back to.
struct FolderIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  std::shared_ptr<const FolderIdentity> parent;

  [[nodiscard]] bool is_on_path_of(const FolderIdentity* other) const {
    for (; other != nullptr; other = other->parent.get()) {
      if (other->device == device && other->inode == inode) return true;
    }
    return false;
  }
};

struct FolderToList {
  std::string path;
  std::shared_ptr<const FolderIdentity> parent;
};

struct FolderFound {
  ListedFolder folder;
  std::vector<FolderToList> children;
  bool is_loop = false;
};

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

std::int64_t changed_of(const struct stat& facts) {
  return static_cast<std::int64_t>(facts.st_ctim.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(facts.st_ctim.tv_nsec);
}

std::string joined(const std::string& folder, std::string_view name) {
  std::string path = folder;
  if (!path.empty()) path.push_back('/');
  return path.append(name);
}

[[noreturn]] void throw_unreadable(const std::filesystem::path& folder, int error_number) {
  const std::string fix = error_number == EACCES || error_number == EPERM ? "; make it readable (chmod u+rx) or move it out of the dataset" : "";
  throw Error("cannot list the folder " + folder.string() + ": " + describe_errno(error_number) + fix);
}

enum class EntryKind { file, folder, neither };

EntryKind kind_by_asking(int directory, const char* name) {
  struct stat facts {};
  if (fstatat(directory, name, &facts, 0) != 0) return EntryKind::neither;
  if (S_ISDIR(facts.st_mode)) return EntryKind::folder;
  return S_ISREG(facts.st_mode) ? EntryKind::file : EntryKind::neither;
}

EntryKind kind_of(int directory, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return EntryKind::file;
    case DT_DIR:
      return EntryKind::folder;
    case DT_LNK:  // a dataset of links to files elsewhere is common: asking for each would be a stat a sample
      return is_image_name(entry.d_name) ? EntryKind::file : kind_by_asking(directory, entry.d_name);
    case DT_UNKNOWN:
      return kind_by_asking(directory, entry.d_name);
    default:
      return EntryKind::neither;
  }
}

FolderFound list_one(const std::filesystem::path& root, const FolderToList& wanted, const std::stop_token& stop) {
  FolderFound found;
  found.folder.path = wanted.path;
  const std::filesystem::path place = wanted.path.empty() ? root : root / wanted.path;
  FileDescriptor descriptor = open_file(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!descriptor.valid()) throw_unreadable(place, errno);
  struct stat facts {};
  if (fstat(descriptor.get(), &facts) != 0) throw_unreadable(place, errno);
  found.folder.changed_nanoseconds = changed_of(facts);
  auto identity = std::make_shared<const FolderIdentity>(FolderIdentity{facts.st_dev, facts.st_ino, wanted.parent});
  found.is_loop = identity->is_on_path_of(wanted.parent.get());
  if (found.is_loop) return found;

  const int number = descriptor.get();
  const Directory directory(fdopendir(number));
  if (!directory) throw_unreadable(place, errno);
  (void)descriptor.release();
  for (std::size_t seen = 0;; ++seen) {
    if (seen % 4096 == 0 && stop.stop_requested()) throw Interrupted();
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) throw_unreadable(place, errno);
      break;
    }
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    switch (kind_of(number, *entry)) {
      case EntryKind::file:
        found.folder.add(name);
        break;
      case EntryKind::folder:
        found.children.push_back({joined(wanted.path, name), identity});
        break;
      case EntryKind::neither:
        found.folder.not_files.emplace_back(name);
        break;
    }
  }
  found.folder.sort();
  return found;
}

}  // namespace

void ListedFolder::add(std::string_view name) {
  if (m_text.size() + name.size() > std::numeric_limits<std::uint32_t>::max())
    throw Error("the folder " + path + " holds more names than can be listed (4 GiB)");
  names.push_back({static_cast<std::uint32_t>(m_text.size()), static_cast<std::uint32_t>(name.size())});
  m_text.append(name);
}

void ListedFolder::sort() {
  const std::string_view text = m_text;
  std::sort(names.begin(), names.end(),
            [text](const Name& a, const Name& b) { return text.substr(a.offset, a.length) < text.substr(b.offset, b.length); });
  std::sort(not_files.begin(), not_files.end());
}

std::string ListedFolder::relative_path(std::size_t number) const { return joined(path, name(number)); }

std::vector<ListedFolder> list_folder(const std::filesystem::path& root, int threads, const std::stop_token& stop, const ListingProgress& progress) {
  std::vector<ListedFolder> folders;
  std::size_t files = 0;
  std::vector<FolderToList> level{{"", nullptr}};
  while (!level.empty()) {
    std::vector<FolderFound> found(level.size());
    parallel_ranges(level.size(), 1, threads, stop, [&](std::size_t first, std::size_t last) {
      for (std::size_t place = first; place < last; ++place) found[place] = list_one(root, level[place], stop);
    });
    level.clear();
    for (FolderFound& one : found) {
      if (one.is_loop) continue;
      files += one.folder.names.size();
      folders.push_back(std::move(one.folder));
      std::move(one.children.begin(), one.children.end(), std::back_inserter(level));
    }
    if (progress) progress(folders.size(), files);
  }
  std::sort(folders.begin(), folders.end(), [](const ListedFolder& a, const ListedFolder& b) {
    return std::pair(a.first_level(), std::string_view(a.path)) < std::pair(b.first_level(), std::string_view(b.path));
  });
  return folders;
}

std::optional<std::int64_t> folder_changed_nanoseconds(const std::filesystem::path& folder) {
  struct stat facts {};
  if (stat(folder.c_str(), &facts) != 0) return std::nullopt;
  return changed_of(facts);
}

}  // namespace dsanalyze
