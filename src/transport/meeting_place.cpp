#include "meeting_place.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/text.hpp"
#include "introduction.hpp"

namespace dsanalyze {
namespace {

/// As /proc/net/tcp and tcp6 write an address: words of the machine's byte order, then the port.
std::string in_table(const sockaddr_storage& address) {
  std::string text;
  std::uint16_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    text = fmt::format("{:08X}", four.sin_addr.s_addr);
    port = ntohs(four.sin_port);
  } else {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    for (std::size_t word = 0; word < 4; ++word) {
      std::uint32_t value = 0;
      std::memcpy(&value, six.sin6_addr.s6_addr + 4 * word, sizeof value);
      text += fmt::format("{:08X}", value);
    }
    port = ntohs(six.sin6_port);
  }
  return text + fmt::format(":{:04X}", port);
}

}  // namespace

bool SocketAddress::loopback() const {
  if (family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  return family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr) != 0;
}

bool is_host_and_port(std::string_view place) {
  const std::size_t colon = place.rfind(':');
  return colon != std::string_view::npos && colon > 0 && place.find('/') == std::string_view::npos &&
         whole_number(place.substr(colon + 1), 65535).value_or(0) > 0;
}

std::vector<SocketAddress> resolve_place(std::string_view place, Keyed keyed) {
  const std::size_t colon = place.rfind(':');
  std::string host(place.substr(0, colon));
  if (host.size() > 2 && host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string port(place.substr(colon + 1));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    throw UsageError(fmt::format("--rendezvous {}: there is no host \"{}\" ({}); a file with such a name is ./{}", printable(place), printable(host),
                                 ::gai_strerror(error), printable(place)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress address{{}, one->ai_addrlen, one->ai_family};
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    if (keyed == Keyed::no && !address.loopback()) {
      throw UsageError(
          fmt::format("--rendezvous {} can be reached from other machines, so the ranks must prove that they belong to the job; make a key "
                      "(head -c 32 /dev/urandom > FILE; chmod 600 FILE), copy it to all machines and pass --key-file FILE to all ranks",
                      printable(place)));
    }
    addresses.push_back(address);
  }
  if (addresses.empty()) throw UsageError(fmt::format("--rendezvous {}: the host has no address of the internet protocols", printable(place)));
  return addresses;
}

bool other_end_is_this_users(int socket) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_size = sizeof own;
  socklen_t other_size = sizeof other;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) != 0) return false;
  const std::string other_row = in_table(other);
  const std::string own_row = in_table(own);
  std::ifstream table(own.ss_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    long user = -1;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user)) continue;
    if (local == other_row && remote == own_row) return user == static_cast<long>(::geteuid());
  }
  return false;
}

}  // namespace dsanalyze
