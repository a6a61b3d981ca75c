#include "mount_plan.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/error.hpp"
#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;
using Kind = MountStep::Kind;

/// What belongs to the kernel and to daemons, and not to a training.
constexpr std::array<std::string_view, 4> of_the_system{"/dev", "/proc", "/sys", "/run"};

bool is_of_the_system(const fs::path& path) {
  return std::ranges::any_of(of_the_system, [&](std::string_view folder) { return lies_in(path, folder); });
}

/// What is the user's own in the sandbox, too.
std::vector<fs::path> kept_places(const SandboxSettings& settings) {
  std::vector<fs::path> places(of_the_system.begin(), of_the_system.end());
  std::ranges::copy_if(settings.shared, std::back_inserter(places), [](const fs::path& path) { return !is_of_the_system(path); });
  return places;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_writable(const fs::path& path) { return ::access(path.c_str(), W_OK | X_OK) == 0; }

bool is_read_only(const MountEntry& mount) { return mount.options == "ro" || mount.options.starts_with("ro,"); }

std::vector<MountStep> plan_with_own_rights(const std::vector<fs::path>& written, const std::vector<MountEntry>& mounts) {
  std::vector<MountStep> steps{{Kind::overlay, "/", true}};
  for (const MountEntry& mount : mounts) {
    if (mount.point == "/" && is_read_only(mount)) steps.front().kind = Kind::bind;
    if (mount.point == "/" || is_of_the_system(mount.point)) continue;
    std::error_code error;
    if (!fs::exists(mount.point, error)) continue;
    if (is_folder(mount.point))
      steps.push_back({is_read_only(mount) ? Kind::bind : Kind::overlay, mount.point});
    else
      steps.push_back({Kind::read_only, mount.point});
  }
  for (const fs::path& folder : written) {
    MountStep* innermost = &steps.front();
    for (MountStep& step : steps)
      if (lies_in(folder, step.path)) innermost = &step;
    innermost->required = true;
  }
  return steps;
}

/// Finds the folders at which overlays can begin for a user without rights.
class Places {
 public:
  explicit Places(const std::vector<MountEntry>& mounts) : m_mounts(mounts) {}

  /// Of `path` and of the folders above it, the highest one that can be a place.
  void add_above(const fs::path& path) {
    fs::path above;
    for (const fs::path& part : path) {
      above /= part;
      if (can_be(above)) return add(above);
    }
  }

  /// `folder`, or what can be a place in it, so many levels deep.
  void add_below(const fs::path& folder, int levels) {
    if (is_of_the_system(folder) || m_looks == 0) return;
    --m_looks;
    if (can_be(folder)) return add(folder);
    if (levels == 0) return;
    std::error_code error;
    for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
      std::error_code ignored;
      if (each->is_directory(ignored) && !each->is_symlink(ignored)) add_below(each->path(), levels - 1);
    }
  }

  [[nodiscard]] bool hold(const fs::path& folder) const {
    return std::ranges::any_of(m_places, [&](const fs::path& place) { return lies_in(folder, place); });
  }
  [[nodiscard]] bool has_mounts_below(const fs::path& folder) const {
    return std::ranges::any_of(m_mounts, [&](const MountEntry& mount) { return mount.point != folder && lies_in(mount.point, folder); });
  }
  [[nodiscard]] const std::vector<fs::path>& all() const { return m_places; }

 private:
  [[nodiscard]] bool can_be(const fs::path& folder) const { return is_folder(folder) && is_writable(folder) && !has_mounts_below(folder); }
  void add(const fs::path& folder) {
    if (!hold(folder)) m_places.push_back(folder);
  }

  const std::vector<MountEntry>& m_mounts;
  std::vector<fs::path> m_places;
  int m_looks = 50'000;  ///< left, so that a large tree of others costs no more than a moment
};

std::vector<MountStep> plan_in_user_namespace(const std::vector<fs::path>& written, const std::vector<MountEntry>& mounts) {
  constexpr int levels = 3;
  Places places(mounts);
  for (const fs::path& folder : written) places.add_above(folder);
  for (const char* const name : {"HOME", "TMPDIR"})
    if (const char* const folder = std::getenv(name); folder != nullptr && folder[0] == '/') {
      std::error_code error;
      places.add_above(fs::weakly_canonical(folder, error));
    }
  places.add_below("/", levels);
  for (const MountEntry& mount : mounts)
    if (!is_read_only(mount)) places.add_below(mount.point, levels);
  for (const fs::path& folder : written)
    if (!places.hold(folder))
      throw Error(fmt::format("{} cannot be isolated: without the right to mount, a folder that has {} is no part of a sandbox", folder.native(),
                              places.has_mounts_below(folder) ? "mounts below" : "another owner"));
  std::vector<MountStep> steps{{Kind::read_only, "/"}};
  for (const fs::path& place : places.all()) {
    const bool required = std::ranges::any_of(written, [&](const fs::path& folder) { return lies_in(folder, place); });
    steps.push_back({Kind::overlay, place, required});
  }
  return steps;
}

void add_sockets(std::vector<fs::path>& shared) {
  constexpr std::size_t most_sockets = 256;
  constexpr int fields_before_path = 7;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line) && shared.size() < most_sockets;) {
    std::size_t at = 0;
    for (int field = 0; field < fields_before_path && at != std::string::npos; ++field)
      at = line.find_first_not_of(' ', std::min(line.find(' ', at), line.size()));
    if (at == std::string::npos || line[at] != '/') continue;
    std::error_code error;
    const fs::path path = fs::canonical(line.substr(at), error);
    if (!error && fs::is_socket(path, error) && !is_of_the_system(path) && std::ranges::find(shared, path) == shared.end()) shared.push_back(path);
  }
}

/// The number of the mount that is seen at `path`; 0 where nothing is.
int mount_seen_at(const fs::path& path) {
  const FileDescriptor place = open_file(path, O_PATH | O_CLOEXEC);
  if (!place.valid()) return 0;
  std::ifstream facts(fmt::format("/proc/self/fdinfo/{}", place.get()));
  for (std::string name; facts >> name;)
    if (int id = 0; name == "mnt_id:" && facts >> id) return id;
  return 0;
}

}  // namespace

std::vector<MountEntry> reachable_mounts() {
  std::vector<MountEntry> mounts = read_mounts();
  std::erase_if(mounts, [](const MountEntry& mount) { return mount_seen_at(mount.point) != mount.id; });
  std::ranges::stable_sort(mounts, {}, [](const MountEntry& mount) { return mount.point.native().size(); });
  return mounts;
}

std::vector<fs::path> written_folders(const SandboxSettings& settings) {
  std::vector<fs::path> folders;
  std::vector<std::string> words = settings.words;
  words.emplace_back(".");
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    std::error_code error;
    fs::path folder = settings.working_directory / (word.starts_with('-') && equals != std::string::npos ? word.substr(equals + 1) : word);
    if (const fs::file_type type = fs::status(folder, error).type();
        type != fs::file_type::regular && type != fs::file_type::directory && type != fs::file_type::not_found)
      continue;  // A device, a pipe, or no path at all.
    folder = fs::weakly_canonical(folder, error);
    while (!error && folder != "/" && !is_folder(folder)) folder = folder.parent_path();
    if (error || !is_writable(folder) || std::ranges::find(folders, folder) != folders.end()) continue;
    const bool is_kept = std::ranges::any_of(kept_places(settings), [&](const fs::path& each) { return lies_in(folder, each); });
    if (is_kept && word == ".") throw Error(fmt::format("{} is not isolated", folder.native()));
    if (!is_kept) folders.push_back(folder);
  }
  return folders;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const std::string_view inner = path.native();
  std::string_view outer = folder.native();
  if (outer.ends_with('/')) outer.remove_suffix(1);
  return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

std::vector<fs::path> shared_with_sandboxes(const fs::path& working_directory) {
  const char* const home = std::getenv("HOME");
  const char* const user = std::getenv("USER");
  std::vector<fs::path> wanted;
  if (home != nullptr)
    for (const char* const name : {".cache", ".triton", ".nv"}) wanted.push_back(fs::path(home) / name);
  wanted.emplace_back("/tmp/nvidia-mps");
  if (user != nullptr) wanted.push_back(fs::path("/tmp") / (std::string("torchinductor_") + user));
  for (const char* const name :
       {"XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "CUDA_MPS_PIPE_DIRECTORY"})
    if (const char* const folder = std::getenv(name); folder != nullptr) wanted.emplace_back(folder);
  std::vector<fs::path> shared;
  for (const fs::path& path : wanted) {
    std::error_code error;
    const fs::path folder = fs::canonical(path, error);
    const bool holds_home = home != nullptr && lies_in(fs::weakly_canonical(home, error), folder);
    if (!error && is_folder(folder) && !holds_home && !lies_in(working_directory, folder) && std::ranges::find(shared, folder) == shared.end())
      shared.push_back(folder);
  }
  add_sockets(shared);
  return shared;
}

std::vector<MountStep> plan_mounts(const SandboxSettings& settings, SandboxRights rights, const std::vector<fs::path>& written,
                                   const std::vector<MountEntry>& mounts) {
  std::vector<MountStep> steps = rights == SandboxRights::own ? plan_with_own_rights(written, mounts) : plan_in_user_namespace(written, mounts);
  for (const fs::path& place : kept_places(settings)) steps.push_back({Kind::bind, place});
  return steps;
}

}  // namespace dsanalyze
