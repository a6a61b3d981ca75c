#include "sample_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/system/files.hpp"

namespace dsanalyze {
namespace {

namespace fs = std::filesystem;

constexpr mode_t mode_of_new_files = 0644;

int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Some filesystems (NFS, quotas) say only now that there was no room.
int close_file(FileDescriptor file) { return ::close(file.release()) == 0 || errno == EINTR ? 0 : errno; }

/// The process that a temporary name ".00000600.jpg.1234.tmp" names; 0 for other names.
pid_t writer_of(std::string_view name) {
  constexpr std::string_view before = ".jpg.";
  constexpr std::string_view after = ".tmp";
  const std::size_t middle = name.find(before);
  if (!name.starts_with('.') || !name.ends_with(after) || middle == std::string_view::npos || middle + before.size() + after.size() > name.size())
    return 0;
  const std::string_view digits = name.substr(middle + before.size(), name.size() - middle - before.size() - after.size());
  pid_t writer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), writer);
  return error == std::errc() && end == digits.data() + digits.size() ? writer : 0;
}

}  // namespace

int write_sample(const fs::path& path, std::span<const std::byte> bytes) {
  FileDescriptor file(::open(path.parent_path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode_of_new_files));
  if (!file.valid()) return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? write_sample_by_rename(path, bytes) : errno;
  if (const int error = write_all(file.get(), bytes)) return error;
  const std::string unnamed = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) {
    const int error = close_file(std::move(file));
    if (error != 0) ::unlink(path.c_str());
    return error;
  }
  // A cut-off file of that name, or a system without /proc: a rename replaces the one and needs not the other.
  return errno == EEXIST || errno == ENOENT ? write_sample_by_rename(path, bytes) : errno;
}

int write_sample_by_rename(const fs::path& path, std::span<const std::byte> bytes) {
  const fs::path temporary = path.parent_path() / fmt::format(".{}.{}.tmp", path.filename().native(), ::getpid());
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode_of_new_files));
  if (!file.valid()) return errno;
  int error = write_all(file.get(), bytes);
  if (const int late = close_file(std::move(file)); error == 0) error = late;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

void remove_left_over_files(const fs::path& folder) {
  std::error_code ignored;
  for (fs::recursive_directory_iterator place(folder, fs::directory_options::skip_permission_denied, ignored), end; place != end;
       place.increment(ignored)) {
    const pid_t writer = writer_of(place->path().filename().native());
    if (writer > 0 && ::kill(writer, 0) != 0 && errno == ESRCH) fs::remove(place->path(), ignored);
  }
}

std::optional<Bytes> whole_sample_bytes(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!file.valid() || fstat(file.get(), &facts) != 0 || facts.st_size < 4) return std::nullopt;
  std::array<unsigned char, 2> first{};
  std::array<unsigned char, 2> last{};
  const bool read = ::pread(file.get(), first.data(), first.size(), 0) == 2 && ::pread(file.get(), last.data(), last.size(), facts.st_size - 2) == 2;
  if (!read || first != std::array<unsigned char, 2>{0xff, 0xd8} || last != std::array<unsigned char, 2>{0xff, 0xd9}) return std::nullopt;
  return static_cast<Bytes>(facts.st_size);
}

}  // namespace dsanalyze
