#include "job_channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t longest_line = std::size_t{16} << 20U;

/// Until the descriptor is ready for `events`; false at the deadline.
bool wait_ready(int descriptor, short events, Timing timing, Deadline deadline) {
  for (;;) {
    const Nanoseconds left = std::max<Nanoseconds>(deadline.at - timing.clock->now(), 0);
    pollfd waiting{descriptor, events, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + (left > 0 ? 1 : 0), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // what is wrong shows when it is used
    if (left == 0) return false;
  }
}

}  // namespace

std::pair<JobChannel, JobChannel> JobChannel::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) throw_errno("cannot make", "a pair of sockets", errno);
  return {JobChannel(FileDescriptor(ends[0])), JobChannel(FileDescriptor(ends[1]))};
}

Status JobChannel::send(const std::string& line, Timing timing, Deadline deadline) {
  const std::string text = line + '\n';
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t more = ::send(m_socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (more > 0) {
      sent += static_cast<std::size_t>(more);
    } else if (errno == EAGAIN) {
      if (!wait_ready(m_socket.get(), POLLOUT, timing, deadline)) return {StatusCode::timeout, 0};
    } else if (errno != EINTR) {
      return {StatusCode::io, errno};
    }
  }
  return {};
}

Status JobChannel::receive(std::string& line, Timing timing, Deadline deadline) {
  std::array<char, 65536> piece;
  std::size_t searched = 0;
  for (;;) {
    const std::size_t end = m_read.find('\n', searched);
    if (end != std::string::npos) {
      line = m_read.substr(0, end);
      m_read.erase(0, end + 1);
      return {};
    }
    searched = m_read.size();
    if (searched > longest_line) return {StatusCode::corrupt, 0};
    const ssize_t more = ::recv(m_socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (more > 0) {
      m_read.append(piece.data(), static_cast<std::size_t>(more));
    } else if (more == 0 || (errno != EAGAIN && errno != EINTR)) {
      return {StatusCode::end, 0};
    } else if (errno == EAGAIN && !wait_ready(m_socket.get(), POLLIN, timing, deadline)) {
      return {StatusCode::timeout, 0};
    }
  }
}

}  // namespace dsanalyze
