#include "meeting_place.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "introduction.hpp"

namespace dsanalyze {
namespace {

std::uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

/// As /proc/net/tcp and tcp6 write an address: words of the machine's byte order, then the port.
std::string in_table(const sockaddr_storage& address) {
  std::string text;
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    text = fmt::format("{:08X}", four.sin_addr.s_addr);
  } else {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    for (std::size_t word = 0; word < 4; ++word) {
      std::uint32_t value = 0;
      std::memcpy(&value, six.sin6_addr.s6_addr + 4 * word, sizeof value);
      text += fmt::format("{:08X}", value);
    }
  }
  return text + fmt::format(":{:04X}", port_of(address));
}

std::optional<sockaddr_storage> own_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? std::optional(address) : std::nullopt;
}

std::optional<sockaddr_storage> other_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? std::optional(address) : std::nullopt;
}

// A row of the table: number, local end, remote end, state, queues, timer, retransmits, user, ...
constexpr std::size_t local_at = 1;
constexpr std::size_t remote_at = 2;
constexpr std::size_t state_at = 3;
constexpr std::size_t user_at = 7;
constexpr std::string_view established = "01";

std::array<std::string_view, user_at + 1> first_words(std::string_view line) {
  std::array<std::string_view, user_at + 1> words;
  for (std::string_view& word : words) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
  }
  return words;
}

std::string row_of(std::string_view local, std::string_view remote) { return fmt::format("{} {}", local, remote); }

}  // namespace

bool SocketAddress::loopback() const {
  if (family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  return family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr) != 0;
}

std::uint16_t SocketAddress::port() const { return port_of(storage); }

bool is_host_and_port(std::string_view place) {
  const std::size_t colon = place.rfind(':');
  return colon != std::string_view::npos && colon > 0 && place.find('/') == std::string_view::npos &&
         whole_number(place.substr(colon + 1), 65535).value_or(0) > 0;
}

bool has_wrong_port(std::string_view place) {
  const std::size_t colon = place.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? "" : place.substr(colon + 1);
  return colon != std::string_view::npos && colon > 0 && place.find('/') == std::string_view::npos && !port.empty() &&
         port.find_first_not_of("0123456789") == std::string_view::npos && !is_host_and_port(place);
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

SocketTable::SocketTable(int family, std::uint16_t port) {
  const std::string remote_port = fmt::format(":{:04X}", port);
  std::ifstream table(family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6");
  for (std::string line; std::getline(table, line);) {
    const auto words = first_words(line);
    if (words[remote_at].ends_with(remote_port) && words[state_at] == established) {
      const auto user = whole_number(words[user_at], UINT32_MAX);
      if (user) m_users.emplace(row_of(words[local_at], words[remote_at]), static_cast<uid_t>(*user));
    }
  }
}

std::optional<uid_t> SocketTable::user_of_other_end(int socket) const {
  const auto own = own_address(socket);
  const auto other = other_address(socket);
  if (!own || !other) return std::nullopt;
  const auto found = m_users.find(row_of(in_table(*other), in_table(*own)));
  return found == m_users.end() ? std::nullopt : std::optional(found->second);
}

bool other_end_is_this_users(int socket) {
  constexpr int most_looks = 10;
  const auto own = own_address(socket);
  if (!own) return false;
  // The kernel leaves rows out where the table changes while it is read.
  for (int look = 1;; ++look) {
    const auto user = SocketTable(own->ss_family, port_of(*own)).user_of_other_end(socket);
    if (user || look == most_looks) return user == ::geteuid();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string source_of(int socket) {
  const auto other = other_address(socket);
  if (!other) return "";
  const std::string address = in_table(*other);
  constexpr std::size_t network_digits = 16;  // of the 32 that an address of IPv6 has
  return address.substr(0, other->ss_family == AF_INET ? address.find(':') : network_digits);
}

}  // namespace dsanalyze
