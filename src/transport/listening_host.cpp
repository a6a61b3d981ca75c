#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "transport/rendezvous/introduction.hpp"
#include "transport/rendezvous/launch.hpp"

namespace dsanalyze {
namespace {

/// An address's bytes, in network order.
struct PlainAddress {
  int family = AF_UNSPEC;
  std::array<unsigned char, 16> bytes{};

  [[nodiscard]] std::size_t size() const { return family == AF_INET ? 4 : 16; }
  [[nodiscard]] std::string text() const {
    std::array<char, INET6_ADDRSTRLEN> written{};
    return ::inet_ntop(family, bytes.data(), written.data(), written.size()) == nullptr ? "" : written.data();
  }
};

std::optional<PlainAddress> parse_plain(const std::string& text) {
  PlainAddress address;
  for (const int family : {AF_INET, AF_INET6}) {
    address.family = family;
    if (::inet_pton(family, text.c_str(), address.bytes.data()) == 1) return address;
  }
  return std::nullopt;
}

std::optional<PlainAddress> plain(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  PlainAddress result;
  result.family = address->sa_family;
  if (result.family == AF_INET) {
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (result.family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) == 0) {
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  } else {
    return std::nullopt;  // link-local ones mean nothing without an interface
  }
  return result;
}

bool within(const PlainAddress& address, const PlainAddress& network, std::size_t bits) {
  if (address.family != network.family) return false;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const auto mask = static_cast<unsigned char>(0x80U >> (bit % 8));
    if (((address.bytes[bit / 8] ^ network.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

std::string listening_host(std::string_view listen) {
  std::string text(listen);
  const std::size_t slash = text.find('/');
  const auto network = slash == std::string::npos ? std::nullopt : parse_plain(text.substr(0, slash));
  const auto bits = network ? whole_number(std::string_view(text).substr(slash + 1), 8 * network->size()) : std::nullopt;
  if (slash != std::string::npos && !bits) {
    throw UsageError(fmt::format("--listen {}: expected an address, an interface's name, or a network such as 10.0.0.0/24", printable(listen)));
  }
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw_errno("cannot list the addresses of", "this machine", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(found, ::freeifaddrs);
  std::vector<std::string> fitting;
  bool is_interface = false;
  std::string known;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    is_interface = is_interface || text == one->ifa_name;
    const auto address = plain(one->ifa_addr);
    if (!address) continue;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", address->text(), printable(one->ifa_name));
    if (bits ? within(*address, *network, *bits) : text == one->ifa_name) fitting.push_back(address->text());
  }
  if (!bits && !is_interface) return text;
  if (fitting.empty()) throw UsageError(fmt::format("--listen {}: this machine has no such address; it has {}", printable(listen), known));
  if (bits && fitting.size() > 1) {
    throw UsageError(fmt::format("--listen {}: this machine has {} and {} in that network; name a smaller network, or one of them", printable(listen),
                                 fitting[0], fitting[1]));
  }
  return fitting.front();
}

}  // namespace dsanalyze
