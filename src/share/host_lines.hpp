#pragma once

#include <poll.h>

#include <cstddef>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/system/shared_memory.hpp"
#include "connection.hpp"
#include "messages.hpp"
#include "socket_path.hpp"

namespace dsanalyze {

class HostDesk;
class HostJobs;

/// Lines to a host, and processes that its cache serves.
constexpr std::size_t most_connections = 256;

/// A host's socket and its lines to processes: who comes, what is said, who hangs up. What messages mean is for HostJobs. Threads: the host's.
class HostLines {
 public:
  using Connection = group_protocol::Connection;

  /// `jobs` is used by later calls alone. Throws as ListeningSocket.
  HostLines(const std::filesystem::path& socket, const HostDesk& desk, HostJobs& jobs, Timing timing);
  ~HostLines();
  HostLines(const HostLines&) = delete;
  HostLines& operator=(const HostLines&) = delete;

  /// "unix:/path"; empty without a socket. Threads: any.
  [[nodiscard]] std::string address() const;

  /// Until something happens on a line, another thread asks for something, or the time has come.
  void wait(Nanoseconds until);
  /// wait() ended as another thread asked for something.
  [[nodiscard]] bool desk_asks() const { return m_polled[0].revents != 0; }
  /// The line of a process that is known, which may take its time.
  Connection& add(FileDescriptor line);
  /// What wait() found: ended processes, messages, strangers.
  void look_at_all();
  /// Strangers are let in again; what did not go on in time is refused.
  void drop_overdue();
  void drop_gone();

  [[nodiscard]] std::list<Connection>& all() { return m_all; }
  [[nodiscard]] const std::list<Connection>& all() const { return m_all; }
  void say(Connection& to, const group_protocol::Head& head, const std::string& text = {}, const group_protocol::Attachments& attached = nullptr);
  void refuse(Connection& connection, const std::string& why);

 private:
  void accept_all();
  void hear(Connection& connection);
  void end(Connection& connection);
  void drop_hung_up();

  const HostDesk& m_desk;
  HostJobs& m_jobs;
  Timing m_timing;
  std::optional<ListeningSocket> m_listener;
  group_protocol::Inbox m_inbox;
  std::list<Connection> m_all;
  std::vector<pollfd> m_polled;
  std::vector<Connection*> m_polled_for;  ///< of each; nullptr: not a connection
  bool m_accepts = true;                  ///< not while there are no descriptors left
};

}  // namespace dsanalyze
