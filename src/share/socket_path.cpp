#include "socket_path.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/system/shared_memory.hpp"
#include "base/text/text.hpp"
#include "group.hpp"

namespace dsanalyze {
namespace {

constexpr std::string_view address_kind = "unix:";
constexpr double connect_seconds = 5;
constexpr double lock_seconds = 5;
constexpr Nanoseconds connect_again = 10'000'000;
constexpr int most_unaccepted = 128;

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = path.native();
  if (name.empty() || name.size() >= sizeof address.sun_path || name.find('\0') != std::string::npos) {
    throw UsageError(fmt::format("a group's socket cannot have the path \"{}\": it has {} bytes, and the kernel takes 1 to {}; use a shorter one",
                                 printable(name), name.size(), sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw_errno("cannot make", "a socket", errno);
  return socket;
}

/// 0, or why no process could be reached.
int try_to_connect(const FileDescriptor& socket, const sockaddr_un& address) {
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

/// Holds the folder for this process among all that would make a socket in it, where its file system has locks.
FileDescriptor lock_folder(const std::filesystem::path& path, Timing timing) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  FileDescriptor lock = open_file(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!lock.valid()) throw_errno("cannot make a group's socket in the folder", printable(folder.native()), errno);
  const Deadline deadline = timing.clock->after(lock_seconds);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (timing.clock->now() >= deadline.at) {
      throw Error(
          fmt::format("cannot make the group's socket {}: another process holds a lock of its folder; use another folder", printable(path.native())));
    }
    timing.waiter->sleep_until(timing.clock->now() + connect_again);
  }
  return lock;
}

/// Removes what a dead host left. Throws UsageError for anything else.
void clear_the_way(const std::filesystem::path& path, const sockaddr_un& address) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return;
  const auto taken = [&](std::string_view why) {
    return UsageError(fmt::format("cannot make the group's socket {}: {}; use another path", printable(path.native()), why));
  };
  if (!S_ISSOCK(there.st_mode)) throw taken("there is a file, which is left alone");
  if (there.st_uid != ::geteuid()) throw taken("there is another user's socket");
  if (try_to_connect(make_socket(), address) != ECONNREFUSED) throw taken("another process listens there");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw_errno("cannot replace the socket of a group that is gone,", printable(path.native()), errno);
}

}  // namespace

ListeningSocket::ListeningSocket(const std::filesystem::path& path, Timing timing) : m_path(path), m_socket(make_socket()) {
  const sockaddr_un address = address_of(path);
  const FileDescriptor lock = lock_folder(path, timing);
  clear_the_way(path, address);
  // The socket's own mode is its file's, so that there is no moment in which others could connect.
  if (::fchmod(m_socket.get(), S_IRUSR | S_IWUSR) != 0 || ::bind(m_socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw_errno("cannot make the group's socket", printable(path.native()), errno);
  }
  name_senders(m_socket.get());  // before anyone can connect: connections have it from here
  struct stat made {};
  if (::listen(m_socket.get(), most_unaccepted) != 0 || ::lstat(path.c_str(), &made) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    throw_errno("cannot listen at the group's socket", printable(path.native()), error);
  }
  m_device = made.st_dev;
  m_inode = made.st_ino;
}

ListeningSocket::~ListeningSocket() {
  struct stat there {};
  if (::lstat(m_path.c_str(), &there) == 0 && there.st_dev == m_device && there.st_ino == m_inode) ::unlink(m_path.c_str());
}

FileDescriptor connect_group(std::string_view address, Timing timing) {
  if (!address.starts_with(address_kind)) {
    throw UsageError(fmt::format("a group's address is \"{}\", expected {}PATH of its socket", printable(address), address_kind));
  }
  const std::string path(address.substr(address_kind.size()));
  const sockaddr_un place = address_of(path);
  FileDescriptor socket = make_socket();
  const Deadline deadline = timing.clock->after(connect_seconds);
  const std::string failure = fmt::format("cannot join the group at {}", printable(path));
  const auto failed = [&](std::string_view why) { return NoGroupError(fmt::format("{}: {}", failure, why)); };
  while (const int error = try_to_connect(socket, place)) {
    switch (error) {
      case EAGAIN:  // more are coming than the host has let in so far
        if (timing.clock->now() >= deadline.at) throw failed(fmt::format("its host does not answer within {} s", connect_seconds));
        timing.waiter->sleep_until(timing.clock->now() + connect_again);
        continue;
      case ENOENT:
        throw failed("there is no such socket; start the group first (`dsanalyze share`), or correct the address");
      case ECONNREFUSED:
        throw failed("its host is gone; start it again");
      case EACCES:
      case EPERM:
        throw RefusedError(failure + ": not allowed: it belongs to another user, and a group is for one user's jobs");
      case EPROTOTYPE:
        throw failed("the socket there is another program's");
      default:
        throw_errno("cannot join the group at", printable(path), error);
    }
  }
  return socket;
}

}  // namespace dsanalyze
