#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "shared_memory.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_descriptors = 16;

constexpr std::size_t descriptors_space = CMSG_SPACE(most_descriptors * sizeof(int));
struct alignas(cmsghdr) ControlBuffer {
  std::array<std::byte, descriptors_space + CMSG_SPACE(sizeof(ucred))> bytes{};
};

Status io_error(int error_number) { return {StatusCode::io, error_number}; }

/// Waits until the socket can be read or written. poll, not a Waiter: no word says what the peer does.
Status wait_for(int socket, short events, Deadline deadline) {
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline.at - system_timing().clock->now(), 0);
    const timespec timeout{static_cast<time_t>(left / nanoseconds_per_second), static_cast<long>(left % nanoseconds_per_second)};
    pollfd entry{socket, events, 0};
    const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
    if (ready > 0) return {};
    if (ready == 0 && left == 0) return {StatusCode::timeout};
    if (ready < 0 && errno != EINTR) return io_error(errno);
  }
}

/// Calls `attempt` (which returns -1 and sets errno) until it does not have to wait any more.
template <typename Attempt>
Status until_ready(int socket, short events, Deadline deadline, const Attempt& attempt) {
  while (attempt() < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return io_error(errno);
    if (const Status ready = wait_for(socket, events, deadline); !ready.ok()) return ready;
  }
  return {};
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

/// Takes the descriptors, and the sender's credentials where they are asked for and there.
void take_control(msghdr& header, std::vector<FileDescriptor>& descriptors, ucred* sender) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS && sender != nullptr) std::memcpy(sender, CMSG_DATA(part), sizeof *sender);
    if (part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + index * sizeof(int), sizeof descriptor);
      descriptors.emplace_back(descriptor);
    }
  }
}

Status receive(int socket, std::span<std::byte> buffer, std::size_t& size, std::vector<FileDescriptor>& descriptors, ucred* sender,
               Deadline deadline) {
  size = 0;
  descriptors.clear();
  if (!same_user(socket)) return io_error(EPERM);
  iovec content{buffer.data(), buffer.size()};
  ControlBuffer control;
  msghdr header{};
  ssize_t got = 0;
  const Status received = until_ready(socket, POLLIN, deadline, [&] {
    header = msghdr{};
    header.msg_iov = &content;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = sender == nullptr ? descriptors_space : control.bytes.size();
    return got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  });
  if (received.code == StatusCode::io && received.detail == ECONNRESET) return {StatusCode::end};
  if (!received.ok()) return received;
  take_control(header, descriptors, sender);
  const bool truncated = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  if (truncated || got == 0) {
    descriptors.clear();
    return {truncated ? StatusCode::corrupt : StatusCode::end};
  }
  size = static_cast<std::size_t>(got);
  return {};
}

}  // namespace

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("cannot make", "a pair of sockets", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Status send_message(int socket, std::span<const std::byte> message, std::span<const int> descriptors, Deadline deadline) {
  // A receiver could not tell an empty message from the end.
  if (message.empty() || descriptors.size() > most_descriptors) return io_error(EINVAL);
  iovec content{const_cast<std::byte*>(message.data()), message.size()};
  ControlBuffer control;
  msghdr header{};
  header.msg_iov = &content;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return until_ready(socket, POLLOUT, deadline, [&] { return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

void name_senders(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) throw_errno("cannot have the senders named of", "a socket", errno);
}

Status receive_message(int socket, std::span<std::byte> buffer, std::size_t& size, std::vector<FileDescriptor>& descriptors, Deadline deadline) {
  return receive(socket, buffer, size, descriptors, nullptr, deadline);
}

Status receive_message(int socket, std::span<std::byte> buffer, std::size_t& size, std::vector<FileDescriptor>& descriptors, MessageSender& sender,
                       Deadline deadline) {
  ucred credentials{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  const Status status = receive(socket, buffer, size, descriptors, &credentials, deadline);
  sender.process = credentials.pid;
  if (!status.ok() || credentials.uid == ::getuid()) return status;
  descriptors.clear();
  size = 0;
  return io_error(EPERM);
}

}  // namespace dsanalyze
