#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "core/partition/collective.hpp"
#include "core/partition/peers.hpp"
#include "transport/rendezvous/job_key.hpp"

namespace dsanalyze {

// The ranks of one job, each connected with each over TCP. docs of the bytes on the wire: src/transport/wire/wire.hpp and handshake.hpp.

/// What is known of a frame that came from another rank, after the handshake, which is authenticated always.
enum class FrameCheck : std::uint8_t {
  checksum,  ///< that no bytes changed by accident: where all of the network is this machine's own
  tag        ///< that the other rank sent it, unchanged and in its turn: Poly1305 under a key of the connection
};

/// How a rank takes part.
struct RankFacts {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;                   ///< ranks, at most most_ranks
  SecretKey key{JobKey{}};                   ///< frames are authenticated with it, not hidden: who can read the network can read samples
  FrameCheck frame_check = FrameCheck::tag;  ///< the same in all ranks
  std::string terms;                         ///< what must be the same in all ranks, in any form (the dataset's digest, seed, batch size, ...)
  std::uint32_t connections_per_peer = 2;    ///< 1 to 16, the same in all ranks
  std::uint32_t io_threads = 2;              ///< 1 to 64; a connection is served by one of them
  std::uint32_t places = 256;                ///< requests in flight at most (PeerSource::capacity()); 1 to 1024
  Bytes largest_sample = 0;                  ///< what a place's buffer holds; 0 to 4 GiB - 1. Memory is taken as it is used
  double peer_deadline_seconds = 1;          ///< without a byte of what it owes, a rank is dead; 0.01 to 3600
  double setup_seconds = 30;                 ///< for all to come; at most 86,400

  /// Throws UsageError that names the field.
  void validate() const;
};

/// Descriptors that join_ranks() takes for good, and those that strangers and connections being set up may take beside.
std::uint64_t rank_descriptors(const RankFacts& facts);
constexpr std::uint64_t passing_descriptors = 256;

/// A rank's address, before the others are known. Movable.
class Listener {
 public:
  /// Binds a port that is free, on a numeric address ("127.0.0.1", "::1", "10.0.0.2"). `others_use`: the address that the others reach it by, where
  /// that is not the one it is bound to. Throws UsageError for what is no address, and for 0.0.0.0 or :: without `others_use`; Error when it
  /// cannot be bound.
  explicit Listener(std::string_view address = "127.0.0.1", std::string_view others_use = {});
  /// "10.0.0.2:40123", "[::1]:40123"
  [[nodiscard]] const std::string& address() const { return m_address; }
  /// The listening socket; this keeps none.
  FileDescriptor take() { return std::move(m_socket); }

 private:
  FileDescriptor m_socket;
  std::string m_address;
};

/// Why a connection was not let in.
enum class Refusal : std::uint8_t {
  none,
  garbage,        ///< does not speak as ranks do
  other_version,  ///< a rank of another version of the protocol
  closed,         ///< hung up before it had proved anything
  too_slow,       ///< 2 s were over
  crowded,        ///< one of too many that had not proved anything
  wrong_proof,    ///< does not have the key, or answers another question
  other_terms,    ///< has the key, but other terms (dataset, world, ...)
  known,          ///< has the key, but that rank is connected already
  dead,           ///< has the key, but that rank was found dead
};
constexpr std::size_t refusal_kinds = 10;
/// "garbage", "other version", ...
std::string_view refusal_name(Refusal refusal);

/// What a rank's transport has done so far; monotonic.
struct RankCounters {
  Bytes bytes_sent = 0;                ///< of samples
  std::uint64_t requests_served = 0;   ///< answered with the sample
  std::uint64_t requests_refused = 0;  ///< answered that it is not held, or not of that length
  Bytes bytes_received = 0;            ///< of samples
  std::uint64_t corrupt = 0;           ///< frames that came changed, twice or out of their turn: their connections were opened anew
  std::uint64_t reopened = 0;          ///< connections that broke and were opened anew
  std::uint64_t nonsense = 0;          ///< connections of members closed for breaking the protocol
  std::array<std::uint64_t, refusal_kinds> refused{};

  /// Connections that were not let in.
  [[nodiscard]] std::uint64_t strangers() const;
};

/// Agreements are numbered in blocks. Who comes to one of a later block gives up those of the blocks before, which end for the others with cancelled:
/// ranks that are stopped in the middle of an agreement, which some have finished by then, go on together in the next block.
constexpr unsigned agreement_block_bits = 16;
constexpr std::uint64_t first_of_next_block(std::uint64_t agreement) { return ((agreement >> agreement_block_bits) + 1) << agreement_block_bits; }

/// On whom all that are left agree.
struct Agreement {
  Status status;                     ///< timeout; cancelled; io: this rank does not go on (Ranks::given_up() says why)
  std::vector<std::uint32_t> ranks;  ///< when status is ok, in order, this one among them
};

/// This rank's ends of the job. Threads: as each function says.
///
/// A connection that breaks is opened anew by the rank that dialed it, and what was in flight comes again; nothing is lost by it. A rank is lost
/// when it said that it leaves, when its process has ended (which is known of ranks on one machine that are connected over loopback), or when no true
/// word of it came for the peer deadline. A rank that another has found lost is never trusted again by that one: its connections are closed and new
/// ones refused. Where it may live after all, it is told: it may have been stopped for a while. A rank that is told so, or that the others exclude
/// from an agreement, does not go on: it takes all others for lost, requests complete with io, and every call of a collective or agree_alive() gives
/// io from then on. Nor does one that has lost half or more of the ranks of the last agreement without a certain end of theirs, which is how a cut
/// network looks to both of its sides: those may go on by themselves. With one half lost the side with the lowest rank goes on. On destruction what
/// was said is delivered, within the peer deadline, and all requests have been completed.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// Barriers, sums and gathers among the ranks of the last agreement, at first all. sum() adds up in the order of ranks, so the result is the same
  /// bit for bit on all; gather() leaves zeros for ranks that take no part. At most 64 MiB a rank. Errors: io (a rank that takes part died),
  /// timeout, corrupt (sizes differ), unsupported (too large). After one the ranks no longer agree which round they are in: agree_alive() first.
  /// Threads: one at a time, which holds for agree_alive() too.
  virtual Collective& collective() = 0;
  /// Rounds beside those of collective(), numbered apart, for who trains while another thread loads and agrees: among the ranks that the last
  /// agreement before the first of them left (at first all), as a whole. A sum that lacks a part is none, so after the death of one of these ranks
  /// every call gives io, at once; a later agreement changes nothing in that. Otherwise as collective(). Threads: one at a time, any beside
  /// collective().
  virtual Collective& training() = 0;
  /// Every round of training() that is running ends soon with cancelled, and every later one. Threads: any.
  virtual void stop_training() = 0;
  virtual PeerSource& peers() = 0;
  /// From now on others are served from this; nullptr: nothing is held. Returns when nothing of what was held before is in use any more, after about
  /// a peer deadline at the latest. Threads: one at a time.
  virtual void serve(const HeldSamples* held) = 0;
  /// The ranks that are left agree who they are, whatever deaths each has seen: all that return ok return the same. Every rank calls it with the
  /// same epochs, each larger than the one before. Ranks that are not in the agreement are dead to all in it.
  virtual Agreement agree_alive(std::uint64_t epoch, Deadline deadline) = 0;
  /// Every agreement and round of collective() that is running, and later ones until restart_rounds(), end soon with cancelled. Threads: any.
  virtual void stop_rounds() = 0;
  virtual void restart_rounds() = 0;
  /// Tells the others that this rank leaves, within the deadline, and serves them no more: for them it is lost, and for this rank all others are.
  /// Threads: any, while no request is in flight.
  virtual void leave(Deadline deadline) = 0;
  /// Why this rank does not go on, in words without a full stop ("the other ranks went on without this one: it did not answer for 1 s"); empty: it
  /// does, as far as it knows. Threads: any.
  [[nodiscard]] virtual std::string given_up() const = 0;
  /// Ranks that this one takes for alive, itself among them, in order; none once it is given up. Threads: any.
  [[nodiscard]] virtual std::vector<std::uint32_t> alive() const = 0;
  /// Threads: any.
  [[nodiscard]] virtual RankCounters counters() const = 0;
};

/// Connects this rank with all others: `addresses` in the order of ranks, each as the rank's Listener::address() gave it (its own is not used).
/// Nothing is held at first. Throws Error that names the ranks that are missing and what is known of each; UsageError for facts or addresses that
/// make no sense; Interrupted once `stop` is asked for. Time: the clock's instants must be of the waiter's kind.
std::unique_ptr<Ranks> join_ranks(Listener listener, const RankFacts& facts, const std::vector<std::string>& addresses, Timing timing,
                                  const std::stop_token& stop = {});

}  // namespace dsanalyze
