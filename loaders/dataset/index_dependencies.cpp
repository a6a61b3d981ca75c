#include "index_dependencies.hpp"

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "loaders/dataset/readers/folder_listing.hpp"
#include "loaders/dataset/readers/parallel_ranges.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

using File = DatasetIndex::Facts::File;

constexpr std::size_t asked_at_once = 64;

/// The file as it is now; nothing when it cannot be asked.
std::optional<File> look_at_file(const fs::path& root, const std::string& path) {
  struct stat facts {};
  if (stat((root / path).c_str(), &facts) != 0) return std::nullopt;
  const auto modified = static_cast<std::int64_t>(facts.st_ctim.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(facts.st_ctim.tv_nsec);
  return File{path, static_cast<std::uint64_t>(facts.st_size), modified, facts.st_ino};
}

}  // namespace

File facts_of(const std::string& file, const FileWindow& window) { return {file, window.size(), window.changed_nanoseconds(), window.inode()}; }

bool depend_on(DatasetIndex::Facts& facts, const std::string& file) {
  auto found = look_at_file(facts.root, file);
  const bool is_there = found.has_value();
  if (is_there) {
    facts.files.push_back(*std::move(found));
  } else {
    facts.absent.push_back(file);
  }
  return is_there;
}

IndexChanges changes_since(const DatasetIndex& index, int threads, const std::stop_token& stop) {
  const DatasetIndex::Facts& facts = index.facts();
  const fs::path root = facts.root;
  const std::size_t files_begin = facts.folders.size();
  const std::size_t absent_begin = files_begin + facts.files.size();
  const std::size_t count = absent_begin + facts.absent.size();
  const auto is_same = [&](std::size_t place) {
    if (place >= absent_begin) return !look_at_file(root, facts.absent[place - absent_begin]);
    if (place >= files_begin) {
      const File& was = facts.files[place - files_begin];
      return look_at_file(root, was.path) == was;
    }
    const auto& was = facts.folders[place];
    return folder_changed_nanoseconds(was.path.empty() ? root : root / was.path) == was.changed_nanoseconds;
  };
  std::vector<char> same(count, 0);
  parallel_ranges(count, asked_at_once, threads, stop, [&](std::size_t first, std::size_t last) {
    for (std::size_t place = first; place < last; ++place) same[place] = is_same(place) ? 1 : 0;
  });
  IndexChanges changes;
  for (std::size_t place = 0; place < count; ++place) {
    if (same[place] != 0) continue;
    if (place >= absent_begin) {
      changes.files.push_back(facts.absent[place - absent_begin]);
    } else if (place >= files_begin) {
      changes.files.push_back(facts.files[place - files_begin].path);
    } else {
      changes.folders.push_back(facts.folders[place].path.empty() ? facts.root : facts.folders[place].path);
    }
  }
  return changes;
}

}  // namespace dsanalyze
