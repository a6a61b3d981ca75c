#include "private_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.hpp"
#include "base/text/text.hpp"

namespace dsanalyze {
namespace {

constexpr unsigned owner_alone = 0600;
constexpr unsigned group_and_others = 0077;
constexpr int most_attempts = 5;

/// Writes and closes; 0 or why not. Network file systems report a full disk at the close.
int write_and_close(FileDescriptor file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::close(file.release()) != 0 && errno != EINTR ? errno : 0;
}

/// A new file; not valid when the name is taken. Throws Error.
FileDescriptor make_file(const std::filesystem::path& path) {
  FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, owner_alone);
  if (!file.valid() && errno != EEXIST) throw_errno("cannot make", printable(path.native()), errno);
  return file;
}

}  // namespace

FileDescriptor open_private_file(const std::filesystem::path& path, Links links, Owners owners, std::string_view what, std::string_view remedy) {
  const auto refused = [&](std::string_view why) { return UsageError(fmt::format("{} {} {}; {}", what, printable(path.native()), why, remedy)); };
  // Not blocking: a pipe under that name must not hold us up.
  const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (links == Links::refused ? O_NOFOLLOW : 0);
  FileDescriptor file = open_file(path, flags);
  if (!file.valid()) {
    if (errno == ENOENT) return file;
    if (errno == ELOOP && links == Links::refused) throw refused("is a symbolic link, which is not followed");
    if (errno == ENXIO) throw refused("is no regular file");  // a socket
    throw_errno(fmt::format("cannot read {}", what), printable(path.native()), errno);
  }
  struct stat there {};
  if (::fstat(file.get(), &there) != 0) throw_errno(fmt::format("cannot read {}", what), printable(path.native()), errno);
  if (!S_ISREG(there.st_mode)) throw refused("is no regular file");
  if (there.st_uid != ::geteuid() && !(owners == Owners::this_user_or_root && there.st_uid == 0)) {
    throw refused(fmt::format("belongs to another user (number {}; this is {})", there.st_uid, ::geteuid()));
  }
  if ((there.st_mode & group_and_others) != 0) throw refused(fmt::format("is open to others (mode {:03o})", there.st_mode & 0777));
  return file;
}

SecretText read_open_file(const FileDescriptor& file, const std::filesystem::path& path, Bytes limit) {
  struct stat there {};
  if (::fstat(file.get(), &there) != 0) throw_errno("cannot read", printable(path.native()), errno);
  SecretText content(std::min<std::size_t>(limit, static_cast<std::size_t>(there.st_size)));
  std::size_t filled = 0;
  while (filled < content.view().size()) {
    const ssize_t got = ::read(file.get(), content.data() + filled, content.view().size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read", printable(path.native()), errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.shorten(filled);
  return content;
}

bool create_private_file(const std::filesystem::path& path, std::string_view content) {
  FileDescriptor file = make_file(path);
  if (!file.valid()) return false;
  if (const int error = write_and_close(std::move(file), content); error != 0) {
    ::unlink(path.c_str());
    throw_errno("cannot write", printable(path.native()), error);
  }
  return true;
}

void replace_private_file(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path next = path.native() + ".new";
  int error = 0;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    FileDescriptor file = make_file(next);
    if (!file.valid()) {  // one that a killed run left, or another process is about to put there
      ::unlink(next.c_str());
      error = EEXIST;
      continue;
    }
    error = write_and_close(std::move(file), content);
    if (error == 0 && std::rename(next.c_str(), path.c_str()) != 0) error = errno;
    if (error == 0) return;
    if (error != ENOENT) break;  // else another process took it away, as above
  }
  if (error != EEXIST) ::unlink(next.c_str());
  throw_errno("cannot write", printable(path.native()), error);
}

}  // namespace dsanalyze
