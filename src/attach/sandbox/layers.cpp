#include "layers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "lock";
constexpr const char* layer_prefix = "layer-";

/// What `name` in an open folder is, and all in it. By descriptors: a path may be longer than the kernel takes, and change meanwhile.
void remove_at(int folder, const char* name) {
  if (::unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  // An overlay's own folder, and the command's, may be closed to their owner.
  ::fchmodat(folder, name, S_IRWXU, 0);
  const int inner = ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inner < 0) return;
  if (DIR* const entries = ::fdopendir(inner); entries != nullptr) {
    while (const dirent* const entry = ::readdir(entries))
      if (std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..") remove_at(inner, entry->d_name);
    ::closedir(entries);
  }
  ::unlinkat(folder, name, AT_REMOVEDIR);
}

/// The folder for layers, which the last start removes, made, checked and locked.
FileDescriptor locked_folder(const fs::path& layers) {
  while (true) {
    std::error_code error;
    fs::create_directories(layers.parent_path(), error);
    ::mkdir(layers.c_str(), S_IRWXU);
    FileDescriptor all = open_file(layers, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat held {};
    struct stat named {};
    if (!all.valid() || ::flock(all.get(), LOCK_EX) != 0 || ::fstat(all.get(), &held) != 0)
      throw_errno("cannot make a sandbox in", layers.native(), errno);
    if (held.st_uid != ::geteuid() || (held.st_mode & (S_IRWXG | S_IRWXO)) != 0)
      throw Error(fmt::format("cannot make a sandbox in {}: it is not this user's alone", layers.native()));
    if (::stat(layers.c_str(), &named) == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino) return all;
  }
}

/// Layers without an owner, each with its lock, so that no other start removes it, too.
std::vector<NewLayer> ownerless(const fs::path& layers) {
  std::vector<NewLayer> found;
  std::error_code error;
  for (fs::directory_iterator each(layers, error), end; !error && each != end; each.increment(error)) {
    if (!each->path().filename().native().starts_with(layer_prefix)) continue;
    FileDescriptor lock = open_file(each->path() / lock_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (lock.valid() && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) found.push_back({each->path(), std::move(lock)});
  }
  return found;
}

}  // namespace

fs::path made_layers_folder(const fs::path& layers) {
  locked_folder(layers);
  return fs::canonical(layers);
}

NewLayer make_new_layer(const fs::path& layers) {
  // Held while a layer has no lock yet; what takes long comes after it.
  const FileDescriptor all = locked_folder(layers);
  const std::vector<NewLayer> dead = ownerless(layers);
  std::string place = layers / (std::string(layer_prefix) + "XXXXXX");
  if (::mkdtemp(place.data()) == nullptr) throw_errno("cannot make a sandbox in", layers.native(), errno);
  NewLayer made{place, open_file(fs::path(place) / lock_name, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!made.lock.valid() || ::flock(made.lock.get(), LOCK_EX | LOCK_NB) != 0) throw_errno("cannot make a sandbox in", layers.native(), errno);
  ::flock(all.get(), LOCK_UN);
  for (const NewLayer& layer : dead) remove_layer(layer.path);
  return made;
}

void remove_layer(const fs::path& layer) noexcept {
  const FileDescriptor all = open_file(layer.parent_path(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (!all.valid()) return;
  remove_at(all.get(), layer.filename().c_str());
  if (::flock(all.get(), LOCK_EX) == 0) ::rmdir(layer.parent_path().c_str());
}

void add_contents(const fs::path& upper, const fs::path& folder, SandboxContents& contents) {
  constexpr std::size_t most_named = 8;
  std::error_code error;
  constexpr auto on = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator each(upper, on, error), end; !error && each != end; each.increment(error)) {
    struct stat facts {};
    if (::lstat(each->path().c_str(), &facts) != 0 || S_ISDIR(facts.st_mode) || S_ISCHR(facts.st_mode)) continue;
    const fs::path outside = folder / each->path().lexically_relative(upper);
    ++contents.files;
    contents.bytes += static_cast<Bytes>(facts.st_size);
    if (contents.named.size() < most_named && outside.native().find("/__pycache__/") == std::string::npos) contents.named.push_back(outside);
  }
}

}  // namespace dsanalyze
