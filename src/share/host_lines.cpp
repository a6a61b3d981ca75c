#include "host_lines.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "host_desk.hpp"
#include "host_jobs.hpp"

namespace dsanalyze {
namespace {

using group_protocol::Kind;
using Stage = group_protocol::Connection::Stage;

constexpr double hello_seconds = 2;
constexpr int most_at_once = 16;  // messages of one member, or strangers, before others have their turn
constexpr Deadline at_any_time{INT64_MAX};

}  // namespace

HostLines::HostLines(const std::filesystem::path& socket, const HostDesk& desk, HostJobs& jobs, Timing timing)
    : m_desk(desk), m_jobs(jobs), m_timing(timing) {
  if (!socket.empty()) m_listener.emplace(socket, timing);
}

HostLines::~HostLines() {
  for (Connection& connection : m_all) {
    if (connection.socket() >= 0) connection.close();
  }
}

std::string HostLines::address() const { return m_listener ? "unix:" + m_listener->path().string() : std::string(); }

void HostLines::wait(Nanoseconds until) {
  m_polled.clear();
  m_polled_for.clear();
  const auto add_polled = [this](int descriptor, short events, Connection* connection) {
    m_polled.push_back({descriptor, events, 0});
    m_polled_for.push_back(connection);
  };
  add_polled(m_desk.wake(), POLLIN, nullptr);
  add_polled(m_listener && m_accepts ? m_listener->get() : -1, POLLIN, nullptr);
  for (Connection& connection : m_all) {
    const auto events = static_cast<short>(POLLIN | (connection.wants_room() ? POLLOUT : 0));
    if (connection.socket() >= 0) add_polled(connection.socket(), events, &connection);
    if (connection.process_descriptor() >= 0) add_polled(connection.process_descriptor(), POLLIN, &connection);
  }
  const Nanoseconds left = std::max<Nanoseconds>(until - m_timing.clock->now(), 0);
  const timespec timeout{static_cast<time_t>(left / nanoseconds_per_second), static_cast<long>(left % nanoseconds_per_second)};
  if (::ppoll(m_polled.data(), m_polled.size(), &timeout, nullptr) < 0) {
    for (pollfd& entry : m_polled) entry.revents = 0;
  }
}

HostLines::Connection& HostLines::add(FileDescriptor line) { return m_all.emplace_back(std::move(line), at_any_time); }

void HostLines::look_at_all() {
  for (std::size_t i = 2; i < m_polled.size(); ++i) {
    Connection& connection = *m_polled_for[i];
    const pollfd& entry = m_polled[i];
    if (entry.revents == 0) continue;
    if (entry.fd == connection.process_descriptor()) {
      connection.forget_process();
      if (connection.stage == Stage::placed) m_jobs.process_ended(connection);
      end(connection);
    } else if (entry.fd == connection.socket()) {
      if ((entry.revents & POLLOUT) != 0 && !connection.send_rest()) end(connection);
      if ((entry.revents & ~POLLOUT) != 0 && connection.socket() >= 0) hear(connection);
    }
  }
  if (m_polled[1].revents != 0) accept_all();
}

void HostLines::drop_hung_up() {
  for (Connection& connection : m_all) {
    if (connection.stage != Stage::placed && connection.hung_up()) end(connection);
  }
  drop_gone();
}

void HostLines::drop_gone() {
  std::erase_if(m_all, [](const Connection& connection) { return connection.stage == Stage::gone; });
}

void HostLines::drop_overdue() {
  m_accepts = true;
  const Nanoseconds now = m_timing.clock->now();
  for (Connection& connection : m_all) {
    const bool idle = connection.stage == Stage::fresh || connection.stage == Stage::called;
    if (idle && now >= connection.deadline.at) refuse(connection, "it did not go on in time");
    if (connection.socket() >= 0 && !connection.send_rest()) end(connection);
  }
}

void HostLines::accept_all() {
  for (int i = 0; i < most_at_once; ++i) {
    FileDescriptor line(::accept4(m_listener->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!line.valid()) {
      m_accepts = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;  // else without descriptors or memory: again with the next survey
      return;
    }
    if (m_all.size() >= most_connections) drop_hung_up();
    Connection& connection = m_all.emplace_back(std::move(line), m_timing.clock->after(hello_seconds));
    if (m_all.size() > most_connections) refuse(connection, "the host has as many connections as it serves at once");
  }
}

void HostLines::hear(Connection& connection) {
  for (int i = 0; i < most_at_once && connection.socket() >= 0; ++i) {
    group_protocol::Message message;
    MessageSender sender;
    const Status status = m_inbox.receive(connection.socket(), message, sender, Deadline{0});
    switch (status.code) {
      case StatusCode::timeout:
        return;
      case StatusCode::ok:
        m_jobs.handle(connection, message, sender);
        break;
      case StatusCode::unsupported:
        refuse(connection, "it speaks version " + std::to_string(message.head.spoken) + " of the group's protocol, this host version " +
                               std::to_string(group_protocol::version) + "; start both from the same version");
        break;
      case StatusCode::corrupt:
        refuse(connection, "it sent what is no message of a group");
        break;
      case StatusCode::io:
        if (status.detail == EPERM) {
          refuse(connection, "it belongs to another user");
          break;
        }
        [[fallthrough]];
      default:
        end(connection);
    }
  }
}

void HostLines::say(Connection& to, const group_protocol::Head& head, const std::string& text, const group_protocol::Attachments& attached) {
  if (!to.send(head, text, attached)) end(to);
}

void HostLines::refuse(Connection& connection, const std::string& why) {
  if (connection.stage == Stage::gone) return;
  m_jobs.emit(GroupEvent::Kind::refused, connection.place, connection.process(), why);
  say(connection, {.kind = Kind::refused}, why.substr(0, group_protocol::most_text));
  end(connection);
}

void HostLines::end(Connection& connection) {
  connection.close();
  if (connection.stage == Stage::placed) {
    m_jobs.line_ended(connection);
  } else {
    connection.stage = Stage::gone;
  }
}

}  // namespace dsanalyze
