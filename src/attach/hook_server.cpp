#include "hook_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t longest_line = std::size_t{64} << 20;
constexpr int longest_send_milliseconds = 5000;

}  // namespace

HookServer::HookServer(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.native().size() >= sizeof address.sun_path) throw Error("the path of the socket is too long: " + socket.native());
  std::memcpy(address.sun_path, socket.c_str(), socket.native().size());
  m_listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  constexpr int most_waiting = 128;
  if (m_listening < 0 || ::bind(m_listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(m_listening, most_waiting) != 0) {
    const int error = errno;
    if (m_listening >= 0) ::close(m_listening);
    throw_errno("cannot listen at", socket.native(), error);
  }
}

HookServer::~HookServer() {
  for (const auto& [member, connection] : m_connections) ::close(connection.descriptor);
  ::close(m_listening);
}

void HookServer::accept_all() {
  for (;;) {
    const int descriptor = ::accept4(m_listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid()) {
      ::close(descriptor);
      continue;
    }
    m_connections[m_next_member++].descriptor = descriptor;
  }
}

bool HookServer::receive(int member, const Handlers& handlers) {
  std::array<char, 65536> buffer;
  for (;;) {
    const auto connection = m_connections.find(member);
    if (connection == m_connections.end()) return false;
    const ssize_t got = ::recv(connection->second.descriptor, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    std::string& received = connection->second.received;
    received.append(buffer.data(), static_cast<std::size_t>(got));
    if (received.size() > longest_line) return false;
    // The handler may send, and so close this connection: it works on a copy.
    const std::size_t last = received.rfind('\n');
    if (last == std::string::npos) continue;
    const std::string lines = received.substr(0, last + 1);
    received.erase(0, last + 1);
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t end = lines.find('\n', at);
      handlers.line(member, std::string_view(lines).substr(at, end - at));
      at = end + 1;
    }
  }
}

void HookServer::close(int member) {
  const auto connection = m_connections.find(member);
  if (connection == m_connections.end()) return;
  ::close(connection->second.descriptor);
  m_connections.erase(connection);
}

void HookServer::serve(int most_milliseconds, const Handlers& handlers) {
  std::vector<pollfd> waited{{m_listening, POLLIN, 0}};
  std::vector<int> members{0};
  for (const auto& [member, connection] : m_connections) {
    waited.push_back({connection.descriptor, POLLIN, 0});
    members.push_back(member);
  }
  if (::poll(waited.data(), waited.size(), most_milliseconds) <= 0) return;
  if (waited.front().revents != 0) accept_all();
  for (std::size_t i = 1; i < waited.size(); ++i) {
    if (waited[i].revents == 0 || receive(members[i], handlers)) continue;
    close(members[i]);
    handlers.closed(members[i]);
  }
}

void HookServer::send(int member, const std::string& text) {
  const auto connection = m_connections.find(member);
  if (connection == m_connections.end()) return;
  const int descriptor = connection->second.descriptor;
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t now = ::send(descriptor, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now > 0) {
      sent += static_cast<std::size_t>(now);
      continue;
    }
    if (now < 0 && errno == EINTR) continue;
    pollfd writable{descriptor, POLLOUT, 0};
    const bool full = now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    // The end of the connection is told where it is read.
    if (!full || ::poll(&writable, 1, longest_send_milliseconds) <= 0) {
      ::shutdown(descriptor, SHUT_RDWR);
      return;
    }
  }
}

}  // namespace dsanalyze
