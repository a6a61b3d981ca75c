#pragma once

#include <array>
#include <cstdint>

namespace dsanalyze::server_protocol {

// Messages between a holder and its clients: one fixed struct each, over a socket that keeps message boundaries. Numbers are checked by the receiver;
// a message that makes no sense ends the connection.

constexpr std::uint32_t version = 3;
constexpr std::size_t group = 256;                     ///< accesses in one message
constexpr std::uint32_t no_slab = UINT32_MAX;          ///< the holder has as many as its descriptors allow
constexpr std::uint64_t most_item_bytes = UINT32_MAX;  ///< larger items are not asked for

enum class Kind : std::uint32_t { hello = 1, admit, publish, abandon, new_slab, get_slab };

struct Access {
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
  std::uint32_t job = 0;
  float priority = 0;  ///< negative or no number: 0
};

struct Request {
  Kind kind = Kind::hello;
  std::uint32_t count = 0;   ///< admit: accesses; hello: protocol version; get_slab: its number
  std::uint32_t slab = 0;    ///< publish
  std::uint32_t length = 0;  ///< publish: at most the bytes that the admit named
  std::uint64_t key = 0;     ///< publish, abandon
  std::uint64_t offset = 0;  ///< publish
  std::array<Access, group> accesses{};
};

struct Reply {
  Kind kind = Kind::hello;
  std::uint32_t value = 0;                      ///< new_slab: its number or no_slab
  std::array<std::uint8_t, group> decisions{};  ///< admit: CacheDecision each
};
// hello is answered with the descriptors of the devices and, when the cache is MinIO, of the directory; nothing but hello makes sense without one.
// get_slab is answered with the slab's descriptor; new_slab carries the new one, sealed against future writers, and is taken once a client.
// publish and abandon have no answer.

}  // namespace dsanalyze::server_protocol
