#include "connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dsanalyze::group_protocol {
namespace {

constexpr std::size_t most_undelivered = 256;  // messages: more than a group of the largest size has to say at once

int open_process(std::int64_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U)); }

}  // namespace

Connection::Connection(FileDescriptor socket, Deadline given_deadline) : deadline(given_deadline), m_socket(std::move(socket)) {}

Status Connection::try_to_send(std::span<const std::byte> bytes, const Attachments& attached) {
  std::vector<int> numbers;
  if (attached != nullptr) {
    for (const FileDescriptor& descriptor : *attached) numbers.push_back(descriptor.get());
  }
  const Status status = send_message(m_socket.get(), bytes, numbers, Deadline{0});
  m_full = status.code == StatusCode::timeout;
  // Too many descriptors on their way, or no memory just now: later is as good.
  const bool later = status.code == StatusCode::io && (status.detail == ETOOMANYREFS || status.detail == ENOBUFS || status.detail == ENOMEM);
  return later ? Status{StatusCode::timeout, 0} : status;
}

bool Connection::send(const Head& head, const std::string& text, const Attachments& attached) {
  if (!m_socket.valid()) return true;
  Rest message{std::vector<std::byte>(sizeof head + text.size()), attached};
  std::memcpy(message.bytes.data(), &head, sizeof head);
  std::ranges::copy(std::as_bytes(std::span(text)), message.bytes.begin() + sizeof head);
  if (m_rest.empty()) {
    const Status status = try_to_send(message.bytes, attached);
    if (status.ok()) return true;
    if (status.code != StatusCode::timeout) return false;
  }
  if (m_rest.size() >= most_undelivered) return false;
  m_rest.push_back(std::move(message));
  return true;
}

bool Connection::send_rest() {
  while (!m_rest.empty()) {
    const Status status = try_to_send(m_rest.front().bytes, m_rest.front().attached);
    if (!status.ok()) return status.code == StatusCode::timeout;
    m_rest.pop_front();
  }
  return true;
}

std::string_view Connection::watch(std::int64_t process) {
  m_process = process;
  if (process <= 0) return "its process is in another PID namespace, where the host could not see it end";
  m_process_descriptor = FileDescriptor(open_process(process));
  if (!m_process_descriptor.valid() && errno == ESRCH) return "its process has ended";
  // Where the kernel or a sandbox has no such call, the line alone says whether the process lives.
  if (!m_process_descriptor.valid() && errno != ENOSYS && errno != EPERM) return "the host has as many open files as it may have";
  // The number may be another process's by now. Then the line's other end went with its process.
  return hung_up() ? "its process has ended" : "";
}

bool Connection::hung_up() const {
  pollfd entry{m_socket.get(), 0, 0};
  return m_socket.valid() && ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

void Connection::close() {
  ::shutdown(m_socket.get(), SHUT_RDWR);  // seen at the other end even if a forked process has a copy of this one
  m_socket.reset();
  m_rest.clear();
}

}  // namespace dsanalyze::group_protocol
