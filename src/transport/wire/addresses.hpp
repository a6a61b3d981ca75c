#pragma once

#include <asio/ip/tcp.hpp>
#include <string>
#include <string_view>

namespace dsanalyze::transport {

/// "10.0.0.2:40123", "[::1]:40123". Throws UsageError, which quotes the text, for anything else; names of hosts are not looked up.
asio::ip::tcp::endpoint parse_endpoint(std::string_view text);
/// Programs that are started do not keep it open: others see at once when this process ends.
void close_on_exec(int socket);
std::string format_endpoint(const asio::ip::tcp::endpoint& endpoint);

}  // namespace dsanalyze::transport
