#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/batch.hpp"
#include "core/partition/peers.hpp"

namespace dsanalyze::transport {

// What ranks say to one another once they are connected: frames, each a head and `length` bytes, numbers little-endian. Parsing has neither state nor
// side effects; what is not well formed ends the connection.

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

/// Of frames and of the handshake.
constexpr std::uint32_t wire_version = 2;

enum class FrameKind : std::uint32_t {
  request = 1,   ///< samples that are asked for, numbered from `number` on; answered in this order
  reply,         ///< a sample's bytes; `number` is the request's
  not_held,      ///< no bytes
  other_length,  ///< held, but not with as many bytes as were asked for; no bytes
  heartbeat,     ///< no bytes
  gather,        ///< a rank's part of round `number`
  mask,          ///< whom a rank takes for alive, for agreement `number`
  decided,       ///< the outcome of agreement `number`, likewise
  given_up,      ///< no bytes; the others go on without the rank that reads this, `number` (a Death) says why
  training,      ///< a rank's part of round `number` of training
  leaving,       ///< no bytes; the rank has no further part in the job: the end of its connections is no failure of the network
  process        ///< which process of this machine the rank is, for ranks that are connected over loopback
};

struct FrameHead {
  FrameKind kind = FrameKind::heartbeat;
  std::uint32_t length = 0;  ///< bytes that follow
  std::uint64_t number = 0;  ///< as kind says
  std::uint64_t said = 0;    ///< of a message: how many this connection has carried with it, over all its sockets; 0: no message
  std::uint64_t heard = 0;   ///< messages that have come the other way: they need not be sent again
};
constexpr std::size_t bare_head_bytes = 32;
static_assert(sizeof(FrameHead) == bare_head_bytes);
/// Stands behind the head, and covers it and what follows: FrameSums.
using FrameSum = std::array<std::byte, 16>;
constexpr std::size_t head_bytes = bare_head_bytes + sizeof(FrameSum);

struct RequestEntry {
  SampleId sample = 0;
  std::uint32_t bytes = 0;
};
constexpr std::size_t entry_bytes = 8;
constexpr std::size_t most_entries = 256;              ///< in one frame
constexpr std::size_t most_asked = 1024;               ///< unanswered on one connection
constexpr std::size_t most_gathered = 64U << 20U;      ///< bytes
constexpr std::size_t most_mask = 2 * most_ranks / 8;  ///< bytes
constexpr std::size_t process_bytes = 24;
constexpr std::size_t most_small = most_entries * entry_bytes;  ///< bytes that follow any head but those of is_long()

/// What follows these may be long, and goes where it belongs as it comes.
constexpr bool is_long(FrameKind kind) { return kind == FrameKind::reply || kind == FrameKind::gather || kind == FrameKind::training; }

/// Frames that are sent again where a connection is opened anew, as they say something once.
constexpr bool is_message(FrameKind kind) {
  return kind == FrameKind::gather || kind == FrameKind::training || kind == FrameKind::mask || kind == FrameKind::decided ||
         kind == FrameKind::leaving || kind == FrameKind::process;
}

using HeadBytes = std::array<std::byte, bare_head_bytes>;
HeadBytes write_head(const FrameHead& head);
/// Nothing when it is none, or says a length that its kind does not have. A reply's length is for the asker to judge.
std::optional<FrameHead> parse_head(std::span<const std::byte, bare_head_bytes> bytes);

void write_entry(const RequestEntry& entry, std::span<std::byte, entry_bytes> out);
/// Appends to `entries`. Requires a length that parse_head() lets pass.
void parse_entries(std::span<const std::byte> bytes, std::vector<RequestEntry>& entries);

using RankMask = std::vector<bool>;
/// What a rank says of all ranks in an agreement: two masks, one bit a rank, rank 0 the lowest of the first byte.
struct Standing {
  RankMask going_on;
  RankMask ended;  ///< for certain, so that every rank knows it that goes on without them because of what this one said
};
std::vector<std::byte> write_standing(const Standing& standing);
/// Nothing when it is not one of `world` ranks.
std::optional<Standing> parse_standing(std::span<const std::byte> bytes, std::uint32_t world);

/// A process, among all of this machine that there have been: its number in its namespace of processes, and when it started.
struct ProcessIdentity {
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;
  std::uint64_t started = 0;  ///< the kernel's ticks

  bool operator==(const ProcessIdentity&) const = default;
};

/// Nothing where /proc does not tell.
std::optional<ProcessIdentity> own_process();
/// For certain: it has ended, though its parent may not have heard. False where it cannot be known, as for one of another namespace of processes.
bool is_gone(const ProcessIdentity& process);

std::vector<std::byte> write_process(const ProcessIdentity& process);
/// Requires process_bytes.
ProcessIdentity parse_process(std::span<const std::byte> bytes);

}  // namespace dsanalyze::transport
