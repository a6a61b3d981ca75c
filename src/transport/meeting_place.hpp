#pragma once

#include <netinet/in.h>

#include <string>
#include <string_view>
#include <vector>

#include "sealed_line.hpp"

namespace dsanalyze {

/// One address of a host and port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] bool loopback() const;
};

/// Whether `place` is HOST:PORT; else it is a file.
bool is_host_and_port(std::string_view place);

/// All addresses of HOST:PORT. Throws UsageError: no such host; without a key, one that is not loopback.
std::vector<SocketAddress> resolve_place(std::string_view place, Keyed keyed);

/// Whether the other end of a connection over loopback is a socket of this user, by the kernel's table of sockets. False when that says nothing of
/// it.
bool other_end_is_this_users(int socket);

}  // namespace dsanalyze
