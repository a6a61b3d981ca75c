#include "sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/error.hpp"
#include "layers.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;
using Kind = MountStep::Kind;

/// Whole, as the kernel wants these files to be written.
bool write_whole(const char* path, const std::string& text) noexcept {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t written = ::write(file, text.data(), text.size());
  ::close(file);
  return written == static_cast<ssize_t>(text.size());
}

/// A relative write of the command through a folder that this program has inherited would reach the folder outside.
void keep_folders_from_children() {
  std::error_code error;
  for (fs::directory_iterator each("/proc/self/fd", error), end; !error && each != end; each.increment(error)) {
    std::error_code gone;
    if (fs::is_directory(each->path(), gone) && !gone) ::fcntl(std::stoi(each->path().filename().native()), F_SETFD, FD_CLOEXEC);
  }
}

int open_folder(const char* path) noexcept { return ::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); }

bool in_first_user_namespace() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return map >> inside >> outside >> count && inside == 0 && count == UINT32_MAX;
}

bool make_folder(const std::string& path, mode_t mode) noexcept { return ::mkdir(path.c_str(), mode) == 0 || errno == EEXIST; }

}  // namespace

Sandbox::Sandbox(const SandboxPlan& plan, const fs::path& launch) : m_plan(plan) {
  NewLayer layer = make_new_layer(plan.settings.layers);
  m_layer = std::move(layer.path);
  m_lock = std::move(layer.lock);
  m_root = m_layer / "root";
  m_user_map = fmt::format("{0} {0} 1", ::geteuid());
  m_group_map = fmt::format("{0} {0} 1", ::getegid());
  // Attributes of files that only root of the machine may have are what renames of folders take.
  m_overlay_options = m_plan.rights == SandboxRights::own && in_first_user_namespace() ? "redirect_dir=on" : "userxattr";
  for (const MountStep& step : m_plan.steps) prepare(step);
  if (!launch.empty()) prepare({Kind::bind, launch});
  m_hidden = m_root + m_plan.settings.layers.native();
  keep_folders_from_children();
}

Sandbox::~Sandbox() { remove_layer(m_layer); }

void Sandbox::prepare(const MountStep& step) {
  struct stat facts {};
  if (::stat(step.path.c_str(), &facts) != 0) return;
  const fs::path place = m_layer / std::to_string(m_mounts.size());
  const std::string target = step.path == "/" ? m_root : m_root + step.path.native();
  m_mounts.push_back({step, target, place.native() + ".upper", place.native() + ".work", facts.st_mode, facts.st_uid, facts.st_gid});
}

const char* Sandbox::make_namespace() const noexcept {
  if (m_plan.rights == SandboxRights::own) {
    if (::unshare(CLONE_NEWNS) != 0) return "a private mount namespace";
  } else {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "a user namespace";
    if (!write_whole("/proc/self/setgroups", "deny") || !write_whole("/proc/self/uid_map", m_user_map) ||
        !write_whole("/proc/self/gid_map", m_group_map))
      return "the user of a user namespace";
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? nullptr : "private mounts";
}

const char* Sandbox::make_layer() const noexcept {
  if (m_plan.in_memory && ::mount("tmpfs", m_layer.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=700") != 0) return "a layer in memory";
  return make_folder(m_root, S_IRWXU) ? nullptr : "the new root";
}

const char* Sandbox::make_overlay(const Mount& mount) const noexcept {
  if (!make_folder(mount.upper, mount.mode & ALLPERMS) || !make_folder(mount.work, S_IRWXU)) return "a layer";
  // What the layer's folder is like is what the command sees of the folder below.
  if (m_plan.rights == SandboxRights::own && ::chown(mount.upper.c_str(), mount.user, mount.group) != 0) return "a layer";
  ::chmod(mount.upper.c_str(), mount.mode & ALLPERMS);
  // By descriptors, as paths may hold what separates options.
  const int lower = open_folder(mount.step.path.c_str());
  const int upper = open_folder(mount.upper.c_str());
  const int work = open_folder(mount.work.c_str());
  constexpr std::size_t room = 160;
  char options[room];
  std::snprintf(options, room, "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d,%s", lower, upper, work,
                m_overlay_options);
  const bool made = ::mount("overlay", mount.target.c_str(), "overlay", 0, options) == 0;
  const int error = errno;
  for (const int descriptor : {lower, upper, work}) ::close(descriptor);
  errno = error;
  return made ? nullptr : "an overlay";
}

const char* Sandbox::make_read_only(const Mount& mount) const noexcept {
  if (::mount(mount.step.path.c_str(), mount.target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return "a bind mount";
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (::syscall(SYS_mount_setattr, AT_FDCWD, mount.target.c_str(), AT_RECURSIVE, &attributes, sizeof attributes) == 0) return nullptr;
  // Before Linux 5.12, of one mount alone.
  if (errno != ENOSYS || m_plan.rights != SandboxRights::own) return "a read-only mount";
  return ::mount(nullptr, mount.target.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0 ? nullptr : "a read-only mount";
}

const char* Sandbox::make(const Mount& mount) const noexcept {
  const char* failed = nullptr;
  switch (mount.step.kind) {
    case Kind::overlay:
      failed = make_overlay(mount);
      // What is not written by the command as far as its words say, and cannot be an overlay, stays as it is.
      if (failed != nullptr && !mount.step.required) failed = make_read_only(mount);
      break;
    case Kind::read_only:
      failed = make_read_only(mount);
      break;
    case Kind::bind:
      if (::mount(mount.step.path.c_str(), mount.target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) failed = "a bind mount";
      break;
  }
  const bool removed_since = failed != nullptr && !mount.step.required && errno == ENOENT;  // by its owner
  return removed_since ? nullptr : failed;
}

const char* Sandbox::change_root() const noexcept {
  if (::chdir(m_root.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 || ::umount2(".", MNT_DETACH) != 0) return "the new root";
  return ::chdir("/") == 0 && ::chdir(m_plan.settings.working_directory.c_str()) == 0 ? nullptr : "the working directory";
}

const char* Sandbox::enter() const noexcept {
  if (const char* const failed = make_namespace(); failed != nullptr) return failed;
  if (const char* const failed = make_layer(); failed != nullptr) return failed;
  for (const Mount& mount : m_mounts)
    if (const char* const failed = make(mount); failed != nullptr) return failed;
  // A command that walks the tree finds no layers.
  if (::mount("tmpfs", m_hidden.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=4k") != 0) return "an empty folder";
  return change_root();
}

fs::path Sandbox::outside(const fs::path& path) const {
  const Mount* innermost = nullptr;
  for (const Mount& mount : m_mounts)
    if (lies_in(path, mount.step.path)) innermost = &mount;
  if (innermost == nullptr || innermost->step.kind != Kind::overlay) return path;
  const fs::path changed = fs::path(innermost->upper) / path.lexically_relative(innermost->step.path);
  struct stat facts {};
  return ::lstat(changed.c_str(), &facts) == 0 && !S_ISCHR(facts.st_mode) ? changed : path;
}

bool Sandbox::is_full() const {
  constexpr Bytes hardly_any = Bytes{1} << 20;
  struct statvfs room {};
  return !m_plan.in_memory && ::statvfs(m_layer.c_str(), &room) == 0 && Bytes{room.f_bavail} * room.f_frsize < hardly_any;
}

std::string Sandbox::way_out() const {
  return fmt::format("It ran in a sandbox{}; --keep-output runs it without one",
                     is_full() ? ", which has no space left: name a folder with more by --sandbox DIR" : "");
}

SandboxContents Sandbox::contents() const {
  SandboxContents contents;
  for (const Mount& mount : m_mounts)
    if (mount.step.kind == Kind::overlay) add_contents(mount.upper, mount.step.path, contents);
  contents.full = is_full();
  return contents;
}

}  // namespace dsanalyze
