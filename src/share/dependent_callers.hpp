#pragma once

#include <poll.h>

#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/system/files.hpp"
#include "base/system/shared_memory.hpp"
#include "group.hpp"
#include "messages.hpp"
#include "socket_path.hpp"

namespace dsanalyze {

/// A process that came to a dependent group and has not been let in.
struct DependentCaller {
  FileDescriptor line;
  Deadline deadline;
  std::optional<GroupDemands> demands{};  ///< once it has said hello
  std::uint64_t command = 0;
  MessageSender sender{};
  bool done = false;
};

/// The lines of those processes: by the group's socket, or made by connect(). Threads: one; connect() and any() all.
class DependentCallers {
 public:
  /// `socket`: where they come; empty: to connect() alone. Throws as ListeningSocket.
  DependentCallers(const std::filesystem::path& socket, Timing timing);

  /// A line that a process will inherit, which has the time to start before it says hello.
  FileDescriptor connect();
  /// "unix:/path"; empty without a socket.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] bool any() const;
  std::list<DependentCaller>& all() { return m_callers; }
  /// What to wait for: new lines, and those that have not said hello.
  void add_to(std::vector<pollfd>& polled) const;
  /// Takes new lines.
  void accept_all();
  /// Reads a hello, where one has come. Returns why the caller is to be refused; empty: it is not.
  std::string hear(DependentCaller& caller);
  /// Sends the last word, and is done with the caller.
  static void dismiss(DependentCaller& caller, group_protocol::Kind kind, const std::string& why);
  void drop_done();

 private:
  Timing m_timing;
  std::optional<ListeningSocket> m_listener;
  group_protocol::Inbox m_inbox;
  std::list<DependentCaller> m_callers;
  mutable std::mutex m_mutex;
  std::vector<FileDescriptor> m_handed_out;  ///< this end of lines that connect() made, until accept_all()
  std::size_t m_count = 0;                   ///< of callers
};

}  // namespace dsanalyze
