#include "layers.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "lock";

void remove_tree(const fs::path& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return;
  if (!S_ISDIR(facts.st_mode)) {
    ::unlink(path.c_str());
    return;
  }
  ::chmod(path.c_str(), S_IRWXU);  // An overlay's own folder, and the command's, may be closed to their owner.
  std::error_code error;
  std::vector<fs::path> inside;
  for (fs::directory_iterator each(path, error), end; !error && each != end; each.increment(error)) inside.push_back(each->path());
  for (const fs::path& each : inside) remove_tree(each);
  ::rmdir(path.c_str());
}

/// Layers without an owner, each with its lock, so that no other start takes it for removal.
std::vector<NewLayer> ownerless(const fs::path& layers) {
  std::vector<NewLayer> found;
  std::error_code error;
  for (fs::directory_iterator each(layers, error), end; !error && each != end; each.increment(error)) {
    std::error_code ignored;
    if (!each->is_directory(ignored) || each->is_symlink(ignored)) continue;
    FileDescriptor lock = open_file(each->path() / lock_name, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) found.push_back({each->path(), std::move(lock)});
  }
  return found;
}

/// The folder of layers, which the last start removes, made and locked.
FileDescriptor locked_folder(const fs::path& layers) {
  while (true) {
    std::error_code error;
    fs::create_directories(layers, error);
    FileDescriptor all = open_file(layers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat held {}, named {};
    if (!all.valid() || ::flock(all.get(), LOCK_EX) != 0 || ::fstat(all.get(), &held) != 0)
      throw_errno("cannot make a sandbox in", layers.native(), errno);
    if (::stat(layers.c_str(), &named) == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino) return all;
  }
}

}  // namespace

NewLayer make_new_layer(const fs::path& layers) {
  // Held while a layer has no lock yet; what takes long comes after it.
  const FileDescriptor all = locked_folder(layers);
  const std::vector<NewLayer> dead = ownerless(layers);
  std::string place = layers / "XXXXXX";
  if (::mkdtemp(place.data()) == nullptr) throw_errno("cannot make a sandbox in", layers.native(), errno);
  NewLayer made{place, open_file(fs::path(place) / lock_name, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!made.lock.valid() || ::flock(made.lock.get(), LOCK_EX | LOCK_NB) != 0) throw_errno("cannot make a sandbox in", layers.native(), errno);
  ::flock(all.get(), LOCK_UN);
  for (const NewLayer& layer : dead) remove_layer(layer.path);
  return made;
}

void remove_layer(const fs::path& layer) noexcept {
  try {
    remove_tree(layer);
    const FileDescriptor all = open_file(layer.parent_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (all.valid() && ::flock(all.get(), LOCK_EX) == 0) ::rmdir(layer.parent_path().c_str());
  } catch (const std::exception&) {  // Memory: the next start removes the rest.
  }
}

void LayerWalk::add(const fs::path& upper, const fs::path& folder) {
  constexpr std::size_t most_named = 64;
  std::error_code error;
  constexpr auto on = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator each(upper, on, error), end; !error && each != end; each.increment(error)) {
    struct stat facts {};
    if (::lstat(each->path().c_str(), &facts) != 0 || S_ISDIR(facts.st_mode) || S_ISCHR(facts.st_mode)) continue;
    const fs::path outside = folder / each->path().lexically_relative(upper);
    ++m_contents.files;
    m_contents.bytes += static_cast<Bytes>(facts.st_size);
    struct stat before {};
    if (S_ISREG(facts.st_mode) && ::lstat(outside.c_str(), &before) == 0 && S_ISREG(before.st_mode)) {
      ++m_contents.copied_files;
      m_contents.copied_bytes += static_cast<Bytes>(before.st_size);
    }
    std::vector<std::string>& named = lies_in(outside, m_working_directory) ? m_here : m_elsewhere;
    if (named.size() < most_named && outside.native().find("/__pycache__/") == std::string::npos) named.push_back(outside.native());
  }
}

SandboxContents LayerWalk::contents() && {
  std::ranges::sort(m_here);
  std::ranges::sort(m_elsewhere);
  m_contents.named = std::move(m_here);
  std::ranges::move(m_elsewhere, std::back_inserter(m_contents.named));
  return std::move(m_contents);
}

}  // namespace dsanalyze
