#include <fcntl.h>
#include <fmt/format.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <charconv>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "door.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze {
namespace {

asio::ip::address parse_listen_address(std::string_view text) {
  asio::error_code error;
  asio::ip::address address = asio::ip::make_address(std::string(text), error);
  if (error) throw UsageError(fmt::format("\"{}\" is no numeric address (10.0.0.2, ::1): names of hosts are not looked up", printable(text)));
  return address;
}

}  // namespace

namespace transport {

asio::ip::tcp::endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::string_view digits = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(std::string(host), error);
  if (error || failure != std::errc() || end != digits.data() + digits.size() || port == 0 || address.is_v6() != is_bracketed) {
    throw UsageError(fmt::format("\"{}\" is no rank's address: expected one as 10.0.0.2:40123 or [::1]:40123", printable(text)));
  }
  return {address, port};
}

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

std::string format_endpoint(const asio::ip::tcp::endpoint& endpoint) {
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), endpoint.address().to_string(), endpoint.port());
}

}  // namespace transport

std::uint64_t rank_descriptors(const RankFacts& facts) {
  constexpr std::uint64_t of_each_thread = 3;  // what it waits by: readiness, events, time
  return std::uint64_t{facts.connections_per_peer} * (facts.world - 1) + of_each_thread * (facts.io_threads + 1) + 1;
}

Listener::Listener(std::string_view address, std::string_view others_use) {
  const asio::ip::address bound = parse_listen_address(address);
  const asio::ip::address used = others_use.empty() ? bound : parse_listen_address(others_use);
  if (used.is_unspecified()) {
    throw UsageError(fmt::format("{} is every address of this server: say which one the other ranks reach it by", printable(address)));
  }
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context);
  try {
    const asio::ip::tcp::endpoint wanted(bound, 0);
    acceptor.open(wanted.protocol());
    transport::close_on_exec(acceptor.native_handle());
    acceptor.bind(wanted);
    acceptor.listen();
    m_address = transport::format_endpoint({used, acceptor.local_endpoint().port()});
    m_socket = FileDescriptor(acceptor.release());
  } catch (const asio::system_error& error) {
    throw Error(fmt::format("cannot listen on {}: {}. It has to be an address of this server (ip address show)", printable(address),
                            describe_errno(error.code().value())));
  }
}

std::string_view refusal_name(Refusal refusal) {
  constexpr std::array<std::string_view, refusal_kinds> names = {"none",    "garbage",     "other version", "closed", "too slow",
                                                                 "crowded", "wrong proof", "other terms",   "known",  "dead"};
  return names[static_cast<std::size_t>(refusal)];
}

std::uint64_t RankCounters::strangers() const {
  std::uint64_t all = 0;
  for (const std::uint64_t count : refused) all += count;
  return all;
}

}  // namespace dsanalyze
