#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {

enum class AccessKind : std::uint8_t {
  open,
  inherited,  ///< not an access: the file was open before its process was traced, as in the child of a fork
  read,
  positioned,  ///< pread and its relatives
  stream,      ///< what a FILE took from its descriptor
  mapped       ///< into memory: what is read of it later is no call
};
constexpr std::array<const char*, 6> names_of(AccessKind /*type*/) { return {"open", "inherited", "read", "positioned", "stream", "mapped"}; }
/// Whether bytes were read by a call.
constexpr bool reads_bytes(AccessKind kind) { return kind == AccessKind::read || kind == AccessKind::positioned || kind == AccessKind::stream; }

struct TracedFile {
  std::string path;  ///< as the process passed it, from the root; links in it are not followed
  Bytes bytes = 0;   ///< its size when it was first opened
  std::uint64_t device = 0, inode = 0;
};

struct TracedProcess {
  int pid = 0;
  std::string command;  ///< as the kernel calls it, up to 15 bytes
};

/// One call.
struct FileAccess {
  Nanoseconds end = 0;
  std::uint64_t offset = 0;
  Bytes bytes = 0;
  std::uint32_t process = 0;      ///< place in AccessTrace::processes
  std::uint32_t file = 0;         ///< place in AccessTrace::files
  std::uint32_t opening = 0;      ///< number of the opening within the process; a copy of a descriptor has the same
  std::uint32_t nanoseconds = 0;  ///< that the call took; longer ones are held to this range
  AccessKind kind = AccessKind::read;
};

/// What the processes of a command read, in the order of time.
struct AccessTrace {
  std::vector<TracedFile> files;
  std::vector<TracedProcess> processes;
  std::vector<FileAccess> accesses;
  std::vector<TracedProcess> untraced;  ///< that were seen among these, without a tracer
  Bytes file_bytes = 0;                 ///< by calls, of all accesses, those beyond the limits of this list too
  Bytes other_bytes = 0;                ///< from pipes, sockets and devices
  Bytes network_bytes = 0;              ///< from sockets of the Internet's protocols
  std::uint64_t lost_accesses = 0;      ///< that came faster than they were taken, or that a process that died had begun to write
  Bytes lost_bytes = 0;
  std::uint64_t left_out = 0;  ///< accesses beyond what this list may hold: the first ones are in it
};

}  // namespace dsanalyze
