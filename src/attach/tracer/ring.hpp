#pragma once

#include <stddef.h>
#include <stdint.h>

// The memory in which a traced process leaves what it reads, for the launcher. Both sides are built from this header, which needs no library. A field
// that both sides use is accessed by atomic operations alone.

namespace dsanalyze::tracing {

constexpr char ring_magic[8] = {'d', 's', 'a', 't', 'r', 'i', 'n', 'g'};
constexpr uint32_t ring_version = 2;
constexpr uint32_t ring_slots = 1U << 16U;
constexpr size_t ring_header_bytes = 4096;

enum class RecordKind : uint8_t {
  none,
  open,        ///< the process opened a file; the path follows
  inherited,   ///< a file that was open before the process was traced, or that it got from elsewhere; the path follows
  read,        ///< at the descriptor's position
  positioned,  ///< pread and its relatives
  stream,      ///< what a FILE* took from its descriptor
  mapped,      ///< amount: pages of 4 KiB
  last = mapped
};

/// A place in the ring. A record takes one; one that has a path takes two and as many as the path needs.
struct Slot {
  uint32_t commit;   ///< written last: commit_word() of the record's place
  uint32_t open;     ///< number of the file's opening within the process, from 1
  uint64_t time;     ///< CLOCK_MONOTONIC, nanoseconds, at the end of the call
  uint64_t offset;   ///< in the file; with a path: the file's size
  uint32_t amount;   ///< bytes; with a path: its length
  uint32_t details;  ///< kind in the lowest 4 bits, then the call's duration in units of 64 ns
};
static_assert(sizeof(Slot) == 32);

/// Follows a record that has a path.
struct FileSlot {
  uint64_t device;
  uint64_t inode;
};
static_assert(sizeof(FileSlot) <= sizeof(Slot));

constexpr uint32_t most_path_bytes = 4096;
constexpr uint32_t kind_bits = 4;
constexpr uint32_t duration_unit = 64;
constexpr uint64_t mapped_page = 4096;

struct RingHeader {
  char magic[8];
  uint32_t version;
  uint32_t slots;
  alignas(64) uint64_t head;  ///< slots that were claimed so far
  alignas(64) uint64_t tail;  ///< slots that the launcher has taken
  alignas(64) uint64_t lost_records;
  uint64_t lost_bytes;
  uint64_t other_bytes;    ///< read from pipes, sockets and devices
  uint64_t network_bytes;  ///< received from sockets of the Internet's protocols, by read calls and by recv and its relatives
};
static_assert(sizeof(RingHeader) <= ring_header_bytes);

constexpr size_t ring_bytes = ring_header_bytes + size_t{ring_slots} * sizeof(Slot);

constexpr uint32_t commit_word(uint64_t place) { return static_cast<uint32_t>(place) + 1; }
constexpr uint32_t path_slots(uint32_t length) {
  return 2 + (length + static_cast<uint32_t>(sizeof(Slot)) - 1) / static_cast<uint32_t>(sizeof(Slot));
}

}  // namespace dsanalyze::tracing
