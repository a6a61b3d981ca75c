#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/system/files.hpp"
#include "ranks_that_meet.hpp"

// Meetings at ports of loopback, and connections to them that are no rank's.

namespace dsanalyze::testing {

inline sockaddr_in on_loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

inline FileDescriptor listen_on_loopback(std::uint16_t port, std::uint16_t& bound) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = on_loopback(port);
  socklen_t size = sizeof address;
  REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(socket.get(), 16) == 0);
  REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  bound = ntohs(address.sin_port);
  return socket;
}

/// A port that was free a moment ago.
inline std::string free_place() {
  std::uint16_t port = 0;
  listen_on_loopback(0, port);
  return "127.0.0.1:" + std::to_string(port);
}

inline std::uint16_t port_of(const std::string& place) { return static_cast<std::uint16_t>(std::stoi(place.substr(place.rfind(':') + 1))); }

/// A stranger's connection, once somebody listens.
inline FileDescriptor dial(const std::string& place) {
  const sockaddr_in address = on_loopback(port_of(place));
  for (;;) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
    std::this_thread::yield();
  }
}

inline bool say(const FileDescriptor& socket, std::string_view bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// All that comes until the other end closes.
inline std::string all_that_comes(const FileDescriptor& socket) {
  std::string all;
  char bytes[4096];
  for (;;) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, 60'000) <= 0) return all + "(still open)";
    const ssize_t got = ::recv(socket.get(), bytes, sizeof bytes, 0);
    if (got <= 0) return all;
    all.append(bytes, static_cast<std::size_t>(got));
  }
}

inline void require_met(const std::vector<Met>& met) {
  for (const Met& one : met) {
    REQUIRE_MESSAGE(one.roster.has_value(), one.error);
    CHECK(one.roster->addresses == met.front().roster->addresses);
    CHECK(one.roster->addresses.size() == met.size());
    CHECK(one.roster->key.bytes() == met.front().roster->key.bytes());
  }
  CHECK(met.front().roster->key.bytes() != JobKey{});
}

}  // namespace dsanalyze::testing
