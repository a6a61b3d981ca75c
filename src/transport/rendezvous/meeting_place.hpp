#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous.hpp"
#include "sealed_line.hpp"

namespace dsanalyze {

/// One address of a host and port.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] bool loopback() const;
  [[nodiscard]] std::uint16_t port() const;
};

/// Whether `place` is HOST:PORT; else it is a file.
bool is_host_and_port(std::string_view place);

/// Whether `place` looks like HOST:PORT, with a port that there is not (0, 70000).
bool has_wrong_port(std::string_view place);

/// All addresses of HOST:PORT. Throws UsageError: no such host; without a key, one that is not loopback.
std::vector<SocketAddress> resolve_place(std::string_view place, Keyed keyed);

/// The kernel's table of TCP sockets, as it was when this was made: who has the other ends of connections that stay within this machine. An end that
/// was closed belongs to no user, whatever the table says of it. Threads: as a value.
class SocketTable {
 public:
  /// Reads the rows of those that are connected to `port`. `family`: AF_INET or AF_INET6.
  SocketTable(int family, std::uint16_t port);
  /// The user who has the other end; nullopt where the table says nothing of it: it is on another machine, or gone.
  [[nodiscard]] std::optional<uid_t> user_of_other_end(int socket) const;

 private:
  std::unordered_map<std::string, uid_t> m_users;  ///< by addresses and ports, the other end's first
};

/// Whether the other end of a connection over loopback is a socket of this user. False when the table says nothing of it.
bool other_end_is_this_users(int socket);

/// What a connection's other end has in common with others that the same attacker may open: an address of IPv4, a network (/64) of IPv6.
std::string source_of(int socket);

// Meeting at HOST:PORT, where rank 0 listens.

constexpr double prove_seconds = 2;
/// Connections that have proved nothing yet, beside one for each rank; a further one takes the place of the oldest of the source that has most.
constexpr std::size_t most_strangers = 256;

Roster meet_at_port_as_rank_zero(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop);
Roster meet_at_port_as_member(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop);

}  // namespace dsanalyze
