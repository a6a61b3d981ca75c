#include "outputs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_named = 64;

/// A change; what `more` holds depends on what was done.
struct Entry {
  std::string done;
  std::uint64_t at = 0;
  std::string path, more;
};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void read_journal(std::string_view text, std::vector<Entry>& entries) {
  std::array<std::string_view, 4> parts;
  std::size_t part = 0;
  for (std::size_t end = text.find('\0'); end != std::string_view::npos; end = text.find('\0')) {
    parts[part++] = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (part < parts.size()) continue;
    entries.push_back({std::string(parts[0]), number(parts[1]), std::string(parts[2]), std::string(parts[3])});
    part = 0;
  }
}

std::optional<struct stat> status(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  return found;
}

/// When a file was made; nothing where its filesystem does not know.
std::optional<std::pair<std::int64_t, std::uint32_t>> birth(const std::string& path) {
  struct statx found {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &found) != 0 || (found.stx_mask & STATX_BTIME) == 0) return std::nullopt;
  return std::pair(std::int64_t{found.stx_btime.tv_sec}, std::uint32_t{found.stx_btime.tv_nsec});
}

/// Whether files there are copied when they are changed, so that an original may be younger than the run.
bool copies_up(const std::string& path) {
  constexpr decltype(statfs::f_type) overlay = 0x794c7630;  // OVERLAYFS_SUPER_MAGIC
  struct statfs found {};
  return ::statfs(path.c_str(), &found) == 0 && found.f_type == overlay;
}

/// The changes of one run, taken back one after another.
class Undo {
 public:
  /// `folder` was made when the run began; `of_run`: folders and files that the run made, or may remove.
  Undo(const std::filesystem::path& folder, std::set<std::filesystem::path> of_run) : m_of_run(std::move(of_run)), m_begin(birth(folder)) {}

  /// `done` holds the time of the last entry that an earlier, interrupted attempt has taken back: a later one is not to be touched again, as the file
  /// that it made anew may be the original by now.
  OutputsUndone of(const std::vector<Entry>& entries, const std::filesystem::path& done) {
    const FileDescriptor mark = open_file(done, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    std::uint64_t before = UINT64_MAX;
    if (::pread(mark.get(), &before, sizeof before, 0) != sizeof before) before = UINT64_MAX;
    for (const Entry& entry : entries) {
      if (entry.at > before) {
        if (entry.done == "place") m_places.insert(entry.path);
        continue;
      }
      take_back(entry);
      if (::pwrite(mark.get(), &entry.at, sizeof entry.at, 0) < 0) continue;  // Only an interruption now would need it.
    }
    for (const std::string& place : m_places) clear(place);
    m_undone.files.assign(m_files.begin(), m_files.end());
    return std::move(m_undone);
  }

 private:
  /// Copies that were never finished go; originals that could not go back stay.
  static void clear(const std::string& place) {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(place, none))
      if (file.path().extension() == ".part") ::unlink(file.path().c_str());
    ::rmdir(place.c_str());
  }

  void take_back(const Entry& entry) {
    const auto found = status(entry.path);
    if (entry.done == "new") {
      if (found && !S_ISDIR(found->st_mode)) check(::unlink(entry.path.c_str()), entry, m_undone.removed);
    } else if (entry.done == "kept") {
      restore(entry);
    } else if (entry.done == "grown") {
      const auto size = static_cast<off_t>(number(entry.more));
      if (found && S_ISREG(found->st_mode) && found->st_size > size) check(::truncate(entry.path.c_str(), size), entry, m_undone.restored);
    } else if (entry.done == "copied") {
      if (status(entry.more)) copy_back(entry);
    } else if (entry.done == "moved") {
      move_back(entry);
    } else if (entry.done == "made") {
      if (found && S_ISDIR(found->st_mode)) ::rmdir(entry.path.c_str());  // What other programs wrote into it stays.
    } else if (entry.done == "gone") {
      if (!found && ::mkdir(entry.path.c_str(), S_IRWXU) == 0) {
        ::chmod(entry.path.c_str(), static_cast<mode_t>(number(entry.more)));
        m_made_anew.insert(entry.path);
      }
    } else if (entry.done == "place") {
      m_places.insert(entry.path);
    }
  }

  void restore(const Entry& entry) {
    if (!status(entry.more)) return;  // It was never set aside.
    // What another process of the run had made is no original: it goes, as the script wanted it to.
    const auto born = birth(entry.more);
    if (m_begin && born && *born > *m_begin && !status(entry.path) && is_of_run(entry.path) && !copies_up(entry.more))
      return check(::unlink(entry.more.c_str()), entry, m_undone.removed);
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(entry.path).parent_path(), ignored);
    check(::rename(entry.more.c_str(), entry.path.c_str()), entry, m_undone.restored);
  }

  [[nodiscard]] bool is_of_run(std::filesystem::path path) const {
    for (; !m_of_run.contains(path); path = path.parent_path())
      if (path == path.parent_path()) return false;
    return true;
  }

  /// Only if it was moved: what lies there now is the same file.
  void move_back(const Entry& entry) {
    const auto colon = entry.more.find(':');
    if (colon == std::string::npos) return;
    const std::string target = entry.more.substr(colon + 1);
    const auto there = status(target);
    const bool same = there && (there->st_ino == number(entry.more.substr(0, colon)) || m_made_anew.erase(target) > 0);
    if (!same) {
      if (!status(entry.path)) m_undone.failures.push_back(fmt::format("{}: it was renamed to {}, and is not there", entry.path, target));
      return;
    }
    // What has come there since is not replaced. Not every filesystem has the call that makes sure of it.
    int moved = ::renameat2(AT_FDCWD, target.c_str(), AT_FDCWD, entry.path.c_str(), RENAME_NOREPLACE);
    if (moved != 0 && errno == EINVAL && !status(entry.path)) moved = ::rename(target.c_str(), entry.path.c_str());
    check(moved, entry, m_undone.restored);
  }

  /// In place, so that other names of the same file have their content back, too.
  void copy_back(const Entry& entry) {
    std::error_code failed;
    const std::filesystem::path copy(entry.more);
    const auto written = std::filesystem::last_write_time(copy, failed);
    if (std::filesystem::exists(entry.path) ? !overwrite(entry) : !std::filesystem::copy_file(copy, entry.path, failed)) {
      check(-1, entry, m_undone.restored);
      return;
    }
    std::filesystem::last_write_time(entry.path, written, failed);
    std::filesystem::remove(copy, failed);
    check(0, entry, m_undone.restored);
  }

  static bool overwrite(const Entry& entry) {
    try {
      const MappedFile content(entry.more);
      const FileDescriptor file = open_file(entry.path, O_WRONLY | O_CLOEXEC);
      std::string_view left = content.view();
      while (file.valid() && !left.empty()) {
        const ssize_t written = ::pwrite(file.get(), left.data(), left.size(), static_cast<off_t>(content.view().size() - left.size()));
        if (written < 0) return false;
        left.remove_prefix(static_cast<std::size_t>(written));
      }
      return file.valid() && ::ftruncate(file.get(), static_cast<off_t>(content.view().size())) == 0;
    } catch (const Error&) {
      return false;
    }
  }

  void check(int result, const Entry& entry, std::size_t& count) {
    if (result == 0) {
      ++count;
      if (m_files.size() < most_named) m_files.insert(entry.path);
      return;
    }
    const char* const cause = std::strerror(errno);
    std::string failure = fmt::format("{}: {}", entry.path, cause);
    if (entry.done == "kept" || entry.done == "copied") failure += fmt::format(" (the original is {})", entry.more);
    m_undone.failures.push_back(failure);
  }

  OutputsUndone m_undone;
  std::set<std::string> m_files, m_places;
  std::set<std::string> m_made_anew;  ///< folders that the script had removed
  std::set<std::filesystem::path> m_of_run;
  std::optional<std::pair<std::int64_t, std::uint32_t>> m_begin;
};

}  // namespace

std::filesystem::path journals_of(const std::filesystem::path& folder) { return folder.native() + "-journals"; }

std::vector<std::filesystem::path> temporary_folders() {
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  for (const std::filesystem::path& folder : {std::filesystem::path("/tmp"), std::filesystem::path("/var/tmp"), std::filesystem::path("/dev/shm"),
                                              std::filesystem::temp_directory_path(ignored)}) {
    if (std::filesystem::path real = std::filesystem::canonical(folder, ignored); !ignored) folders.push_back(std::move(real));
  }
  return folders;
}

OutputsUndone undo_outputs(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& temporary) {
  std::vector<Entry> entries;
  OutputsUndone unreadable;
  std::error_code gone;
  std::filesystem::directory_iterator file(folder, gone);
  if (gone) {
    unreadable.failures.push_back(
        fmt::format("{}, the list of what the script changed: {} (originals lie in folders .dsanalyze-kept-*)", folder.native(), gone.message()));
  }
  for (std::filesystem::directory_iterator end; !gone && file != end; file.increment(gone)) {
    if (!file->path().filename().native().starts_with("journal-")) continue;
    try {
      read_journal(read_file(file->path()), entries);
    } catch (const Error& error) {
      unreadable.failures.emplace_back(error.what());
    }
  }
  std::ranges::stable_sort(entries, std::ranges::greater(), &Entry::at);
  std::set<std::filesystem::path> of_run(temporary.begin(), temporary.end());
  for (const Entry& entry : entries)
    if (entry.done == "new" || entry.done == "made") of_run.insert(entry.path);
  OutputsUndone undone = Undo(folder, std::move(of_run)).of(entries, folder / "undone");
  undone.failures.insert(undone.failures.end(), unreadable.failures.begin(), unreadable.failures.end());
  return undone;
}

}  // namespace dsanalyze
