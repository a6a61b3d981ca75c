#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "job_key.hpp"

namespace dsanalyze {

// How the ranks of one job find one another, once, before anything else: each says where it listens and learns where all do.

/// Something that all ranks of a job must have alike, for messages: {"dataset digest", "0f3a..."}.
struct AgreedValue {
  std::string name;
  std::string value;

  bool operator==(const AgreedValue&) const = default;
};

/// What a rank brings to the meeting.
struct Meeting {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;            ///< ranks of the job, 1 to most_ranks
  std::string address;                ///< where this rank listens, "host:port"
  std::vector<AgreedValue> agreed;    ///< names and values without control characters; together at most 2 KiB
  std::optional<SecretKey> key = {};  ///< of --key-file; without one rank 0 makes a key and hands it out
  double timeout_seconds = 60;
};

/// What every rank has after it.
struct Roster {
  std::vector<std::string> addresses;  ///< by rank
  SecretKey key;
};

/// Meets the other ranks at `place`: HOST:PORT, where rank 0 listens, or else the path of a file on a file system that all ranks share ("./a:1" is a
/// file).
///
/// File: this user's alone (mode 0600), without locks, so that it works over NFS; what earlier runs left behind is not believed and is replaced,
/// another user's file, a link, or a file of any other kind is refused and left alone. Nothing is left behind when rank 0, or every other rank, comes
/// to the end of its call. Host and port: with a key both ends prove that they know it before anything else is said (at most 256 bytes and 2 s), and
/// what follows is encrypted; who does not know it is dropped and learns nothing. Without a key only loopback addresses are allowed, and both ends
/// must be processes of one user.
///
/// Returns the same on every rank, or throws on every rank that came: UsageError when ranks contradict one another (two processes of one rank, other
/// worlds, other protocol versions, other keys, an agreed value that differs) or the place cannot be used, Error that names the ranks that did not
/// come in time, Interrupted when `stop` is requested. Blocks for at most timeout_seconds, and 7 s more while rank 0 tells
/// the others who lacks. Threads:
/// any, one call a meeting.
Roster meet(std::string_view place, const Meeting& meeting, Timing timing, const std::stop_token& stop);

/// The size of what a rank gives to all others where a launcher exchanges it (MPI). The same in all ranks of one protocol version.
constexpr std::size_t exchanged_bytes = 4096;
/// What this rank gives. Rank 0's holds the key that it made, or, with a key given, proof that it knows it; it is to be wiped.
std::vector<std::byte> exchanged_record(const Meeting& meeting);
/// What all gave, world x exchanged_bytes in rank order: the roster. Throws as meet() does. Wipes `all`.
Roster roster_of_exchange(std::span<std::byte> all, const Meeting& meeting);

}  // namespace dsanalyze
