#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/text/units.hpp"

namespace dsanalyze {

/// A Unix socket at which processes of the same user say one JSON object a line, and are answered. Threads: one.
class HookServer {
 public:
  /// Throws Error.
  explicit HookServer(const std::filesystem::path& socket);
  ~HookServer();
  HookServer(const HookServer&) = delete;
  HookServer& operator=(const HookServer&) = delete;

  struct Handlers {
    std::function<void(int member, std::string_view line)> line;
    std::function<void(int member)> closed;
  };
  /// Waits up to this long for something to happen, and hands it on. A connection whose line grows beyond all measure, or of another user, is closed.
  void serve(int most_milliseconds, const Handlers& handlers);
  /// What a process that does not read would not take is lost, and its connection with it.
  void send(int member, const std::string& text);

 private:
  struct Connection {
    int descriptor = -1;
    std::string received;
  };
  void accept_all();
  /// False when the other side has closed it, or it was closed here.
  bool receive(int member, const Handlers& handlers);
  void close(int member);

  int m_listening = -1;
  int m_next_member = 1;
  std::map<int, Connection> m_connections;
};

}  // namespace dsanalyze
