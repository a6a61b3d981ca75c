#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/system/shared_memory.hpp"

namespace dsanalyze::group_protocol {

// Messages between a group's host and its members, over sockets that keep message boundaries: a fixed head, a text, descriptors. Neither believes
// the other: what makes no sense ends the connection. docs/sharing.md has their order.

constexpr std::uint32_t version = 2;
constexpr std::size_t most_text = 65536;  ///< bytes

enum class Kind : std::uint32_t {
  hello = 1,  ///< member: demands, as JSON; as `epoch`, the number of the command that it belongs to, 0 for none
  refused,    ///< host: why, for people; the connection ends
  terms,      ///< host: the terms, as JSON; the board, and what has_ says
  ask,        ///< member: may it come in?
  waiting,    ///< host: not yet; for which epoch, how long
  come,       ///< host: a place is kept for it; now it takes the memory that it needs
  enter,      ///< member: its page, its slab
  placed,     ///< host: its place, the first epoch that it takes part in, how long until then
  introduce,  ///< host: another job's place and segments
  vacated,    ///< host: nothing of the place is needed any more
  ended       ///< host: no epoch will open any more; to hello: this job had all of them, as the text says, and the connection ends
};

// What is attached, in this order. The board comes first in `terms`, always.
constexpr std::uint32_t has_index = 1;
constexpr std::uint32_t has_server = 2;
constexpr std::uint32_t has_page = 4;
constexpr std::uint32_t has_slab = 8;

struct Head {
  std::uint32_t spoken = version;  ///< first in every version
  Kind kind = Kind::hello;
  std::uint32_t place = 0;
  std::uint32_t attached = 0;
  std::uint64_t epoch = 0;
  Nanoseconds wait = -1;  ///< negative: not known
};
static_assert(sizeof(Head) == 32);

struct Message {
  Head head;
  std::string text;
  std::vector<FileDescriptor> descriptors;

  /// The descriptor that `flag` stands for; not valid when it is not there. Once.
  FileDescriptor take(std::uint32_t flag);
  /// Whether it has as many descriptors as its head says.
  [[nodiscard]] bool complete() const;
};

/// Receives into a buffer of its own.
class Inbox {
 public:
  Inbox();
  /// As receive_message(); corrupt also for what has no head or not the descriptors that it names; unsupported for another version's.
  Status receive(int socket, Message& message, Deadline deadline);
  /// From a socket that names senders.
  Status receive(int socket, Message& message, MessageSender& sender, Deadline deadline);

 private:
  Status parse(std::size_t size, std::vector<FileDescriptor>& descriptors, Message& message) const;
  std::vector<std::byte> m_buffer;
};

/// As send_message().
Status send(int socket, const Head& head, std::string_view text, std::span<const int> descriptors, Deadline deadline);

}  // namespace dsanalyze::group_protocol
